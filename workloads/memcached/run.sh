#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts memcached in the foreground, with a thread for each CPU.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_CPUS
use_root
need_tool memcached
port_free
# As root it asks for a user to become.
user=()
[ "$(id -u)" != 0 ] || user=(--user=nobody)
exec memcached --listen=127.0.0.1 --port="$METASCHED_PARAM_PORT" --udp-port=0 --memory-limit=64 \
    --conn-limit=1024 --threads="$METASCHED_CPUS" "${user[@]}"
