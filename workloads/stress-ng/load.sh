#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh switch|mix: runs stress-ng in chunks of a fixed number of operations.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS METASCHED_DURATION_S METASCHED_PARAM_STRESSORS
need_count loops
use_root
need_tool stress-ng
options=()
case $1 in
switch) options=(--switch "$METASCHED_CPUS" --switch-ops "$METASCHED_PARAM_LOOPS") ;;
mix)
    IFS=, read -ra stressors <<<"$METASCHED_PARAM_STRESSORS"
    for stressor in "${stressors[@]}"; do
        [[ $stressor =~ ^([a-z][a-z0-9-]*)=([1-9][0-9]*)$ ]] ||
            fail "use the stressor '$stressor'" "it is not NAME=OPERATIONS" \
                "give --set stressors=cpu=10,pipe=1000 or the like"
        options+=("--${BASH_REMATCH[1]}" 1 "--${BASH_REMATCH[1]}-ops" "${BASH_REMATCH[2]}")
    done
    ;;
*) fail "run the form '$1'" "there are switch and mix" "correct the manifest" ;;
esac
scratch=$(fresh_folder stress-ng)
# It makes files where it is, or says that it cannot.
PYTHONPATH=../common exec "$python" load.py "$scratch/figures.yaml" \
    stress-ng --temp-path "$scratch" "${options[@]}"
