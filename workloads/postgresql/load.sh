#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh tpcb-like|select-only: runs transactions through pgbench.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_RUN METASCHED_DURATION_S
need_count clients
use_postgresql "$METASCHED_RUN/root"
need_tool pgbench
logs=$(fresh_folder pgbench)
threads=$((METASCHED_PARAM_CLIENTS < 2 ? 1 : 2))
PYTHONPATH=../common exec "$python" load.py "$logs" \
    pgbench --host "$METASCHED_RUN/postgresql" --no-vacuum --builtin "$1" \
    --client "$METASCHED_PARAM_CLIENTS" --jobs "$threads" --time "$(whole_seconds)"
