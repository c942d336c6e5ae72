#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks Redis through redis-benchmark.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S
need_count connections
need_count chunk
use_root
need_tool redis-benchmark
port_open
PYTHONPATH=../common exec "$python" load.py redis-benchmark -h 127.0.0.1 -p "$METASCHED_PARAM_PORT" \
    -c "$METASCHED_PARAM_CONNECTIONS" -n "$METASCHED_PARAM_CHUNK" -r 100000 -d 100 -t set,get
