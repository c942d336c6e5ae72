#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh none|some|all: runs the functions; of so many of them a call has several threads.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS METASCHED_DURATION_S METASCHED_PARAM_LOAD METASCHED_PARAM_LOOP \
    METASCHED_PARAM_SAMPLES METASCHED_PARAM_PIN
for name in density sleep-us kib width seed; do
    need_count "$name"
done
[[ $METASCHED_PARAM_LOAD =~ ^[0-9]{1,4}(\.[0-9]{1,6})?$ ]] ||
    fail "use load=$METASCHED_PARAM_LOAD" "that is not a number" "give another with --set load=NUMBER"
use_root
PYTHONPATH=../common exec "$python" load.py "$METASCHED_RUN/root/usr/bin/function" "$1"
