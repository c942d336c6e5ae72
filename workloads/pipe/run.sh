#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Sends a number to and fro through pipes, until the time is over.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S
need_count loops
use_root
need_tool perf
exec "$python" ../common/repeat.py --units "$METASCHED_PARAM_LOOPS" --says 'Total time: *([0-9.]+) \[sec\]' \
    perf bench sched pipe --loop "$METASCHED_PARAM_LOOPS"
