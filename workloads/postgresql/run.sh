#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Starts PostgreSQL in the foreground, on the prepared database as it was at first. It listens on
# a Unix socket alone.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_CACHE METASCHED_RUN
use_postgresql "$METASCHED_RUN/root"
need_tool postgres tar setpriv
home=$(fresh_folder postgresql)
tar -C "$home" -xf "$METASCHED_CACHE/cluster.tar" ||
    fail "unpack the database into '$home'" "see above" \
        "see whether there is memory for it, or prepare anew"
[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$home"
# It starts in a folder that its user can enter.
cd "$home"
as_nobody postgres -D "$home/data" -k "$home"
