#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes processes in parallel lines.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS METASCHED_DURATION_S METASCHED_PARAM_CHILD
need_count per-cpu
program=
if [ "$METASCHED_PARAM_CHILD" = exec ]; then
    # From memory: a guest's root is slow.
    program=$(fresh_folder forks)/true
    cp -L /bin/true "$program" || fail "copy /bin/true" "see above" \
            "see whether the memory file system is full"
fi
PYTHONPATH=../common exec "$python" load.py $((METASCHED_CPUS * METASCHED_PARAM_PER_CPU)) "$program"
