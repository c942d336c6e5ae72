#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Exits with 0 if PostgreSQL takes connections.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_RUN
use_postgresql "$METASCHED_RUN/root"
exec pg_isready --quiet --host "$METASCHED_RUN/postgresql"
