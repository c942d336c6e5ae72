#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Computes in several processes for each CPU.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_CPUS METASCHED_DURATION_S
need_count per-cpu
need_count loops
PYTHONPATH=../common exec "$python" load.py \
    $((METASCHED_CPUS * METASCHED_PARAM_PER_CPU)) "$METASCHED_PARAM_LOOPS"
