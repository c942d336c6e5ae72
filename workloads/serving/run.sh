#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts the servers in the foreground.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_PARAM_SERVER METASCHED_PARAM_PIN
need_containers
need_count hidden
port_free
use_packages
exec "$python" serve.py "$METASCHED_PARAM_CONTAINERS" "$METASCHED_PARAM_PORT" "$METASCHED_PARAM_HIDDEN" \
    "$METASCHED_PARAM_SERVER" "$METASCHED_RUN/ready"
