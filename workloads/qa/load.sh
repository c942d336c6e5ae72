#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks the front end through wrk: 10 threads, 20 connections, as in the published experiment.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_DURATION_S
need METASCHED_PARAM_PORT
command -v wrk >/dev/null || fail "load the front end" "there is no 'wrk'" "install the package wrk"

export QA_CONNECTIONS=20
# wrk takes whole seconds.
seconds=$(printf '%.0f' "$METASCHED_DURATION_S")
((seconds >= 1)) || seconds=1
# A response later than the timeout counts as an error; emulated and with the sentence
# model, 20 waiting requests take 4 s. The other limit is for a wrk that hangs.
exec timeout --signal=KILL $((seconds + 30)) \
    wrk --threads 10 --connections "$QA_CONNECTIONS" --duration "${seconds}s" --timeout 10s \
    --script ask.lua "http://127.0.0.1:$METASCHED_PARAM_PORT/ask"
