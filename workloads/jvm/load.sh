#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Asks the JVM to measure, and prints its figures. It costs next to nothing meanwhile.
set -euo pipefail
# shellcheck source=../common/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common/common.sh"
need METASCHED_DURATION_S
port_open

exec {server}<>"/dev/tcp/127.0.0.1/$METASCHED_PARAM_PORT"
printf 'GET /run/%s HTTP/1.0\r\n\r\n' "$METASCHED_DURATION_S" >&"$server"
last=
while IFS= read -r line || [ -n "$line" ]; do
    last=${line%$'\r'}
done <&"$server"
[[ $last == "METASCHED "* ]] ||
    fail "measure for $METASCHED_DURATION_S s" "the JVM answered '$last'" "see its log"
echo "$last"
