#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh short|keepalive: asks nginx through wrk.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/wrk.sh
need METASCHED_RUN
need_count connections
use_root
port_open
options=()
[ "$1" != short ] || options=(--header "Connection: close")
run_wrk 2 "$METASCHED_PARAM_CONNECTIONS" ../common/wrk.lua \
    "http://127.0.0.1:$METASCHED_PARAM_PORT/" "${options[@]}"
