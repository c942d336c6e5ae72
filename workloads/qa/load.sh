#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks the front end through wrk: 10 threads, 20 connections, as in the published experiment.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
. ../common/wrk.sh
need METASCHED_PARAM_PORT
command -v wrk >/dev/null || fail "load the front end" "there is no 'wrk'" "install the package wrk"
run_wrk 10 20 ask.lua "http://127.0.0.1:$METASCHED_PARAM_PORT/ask"
