#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks the servers.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_DURATION_S METASCHED_PARAM_DRIVER
for name in users spawn think-ms; do
    need_count "$name"
done
need_containers
port_open
use_packages
if [ "$METASCHED_PARAM_DRIVER" = locust ]; then
    exec "$python" -m locust --locustfile locustfile.py --headless --only-summary --loglevel WARNING \
        --users "$METASCHED_PARAM_USERS" --spawn-rate "$METASCHED_PARAM_SPAWN"
fi
exec "$python" drive.py
