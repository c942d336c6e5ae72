#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks memcached.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S
need_count connections
use_root
need_tool luajit
port_open
exec luajit load.lua "$METASCHED_PARAM_PORT" "$METASCHED_PARAM_CONNECTIONS" "$METASCHED_DURATION_S"
