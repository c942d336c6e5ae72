#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Sends all messages once.
set -euo pipefail
command -v hackbench >/dev/null || {
    echo "cannot run hackbench: it is not there; install the package rt-tests" >&2
    exit 1
}
options=(--groups "$METASCHED_PARAM_GROUPS" --loops "$METASCHED_PARAM_LOOPS")
[ "$METASCHED_PARAM_OVER" = socket ] || options+=(--pipe)
exec hackbench "${options[@]}" >&2
