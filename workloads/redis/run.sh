#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts Redis in the foreground, all in memory.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN
use_root
need_tool redis-server
port_free
home=$(fresh_folder redis)
exec redis-server --bind 127.0.0.1 --port "$METASCHED_PARAM_PORT" --dir "$home" --daemonize no \
    --save '' --appendonly no --maxmemory 256mb --maxmemory-policy allkeys-random
