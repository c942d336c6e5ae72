#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh cpu|threads: runs one of sysbench's tests.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS METASCHED_DURATION_S
need_count per-cpu
need_count threads
need_count locks
use_root
need_tool sysbench
case $1 in
cpu) options=(--threads=$((METASCHED_CPUS * METASCHED_PARAM_PER_CPU)) cpu --cpu-max-prime=10000) ;;
threads) options=(--threads="$METASCHED_PARAM_THREADS" threads --thread-locks="$METASCHED_PARAM_LOCKS") ;;
*) fail "run the test '$1'" "there are cpu and threads" "correct the manifest" ;;
esac
PYTHONPATH=../common exec "$python" load.py sysbench --time="$(whole_seconds)" --events=0 --histogram=on \
    "${options[@]}" run
