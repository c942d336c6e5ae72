#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks the servers.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_DURATION_S METASCHED_PARAM_DRIVER METASCHED_PARAM_CLIENTS
for name in users spawn think-ms; do
    need_count "$name"
done
need_containers
port_open
use_packages
command=("$python" drive.py)
if [ "$METASCHED_PARAM_DRIVER" = locust ]; then
    command=("$python" -m locust --locustfile locustfile.py --headless --only-summary --loglevel WARNING
        --users "$METASCHED_PARAM_USERS" --spawn-rate "$METASCHED_PARAM_SPAWN")
fi
if [ "$METASCHED_PARAM_CLIENTS" = far ]; then
    need_tool chrt
    chrt --fifo 1 true || fail "ask as clients that are far" "real-time is refused, see above" \
        "run it as root, or give --set clients=near"
    command=(chrt --fifo 1 "${command[@]}")
fi
exec "${command[@]}"
