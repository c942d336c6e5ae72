#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs cyclictest's threads, in the ordinary class: others are not sched_ext's. It leaves the
# CPUs' idle states alone, since that would change what runs beside it.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS METASCHED_DURATION_S
need_count interval
need_count per-cpu
use_root
need_tool cyclictest
results=$(fresh_folder cyclictest)/results.json
PYTHONPATH=../common exec "$python" load.py "$results" "$(whole_seconds)" \
    cyclictest --policy=other --laptop --quiet --interval="$METASCHED_PARAM_INTERVAL" \
    --threads=$((METASCHED_CPUS * METASCHED_PARAM_PER_CPU))
