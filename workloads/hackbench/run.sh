#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Sends messages in rounds, until the time is over.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S METASCHED_PARAM_OVER
need_count groups
need_count loops
use_root
need_tool hackbench
# Each of 20 senders sends to each of 20 receivers.
messages=$((METASCHED_PARAM_GROUPS * 20 * 20 * METASCHED_PARAM_LOOPS))
options=(--groups "$METASCHED_PARAM_GROUPS" --loops "$METASCHED_PARAM_LOOPS")
[ "$METASCHED_PARAM_OVER" = socket ] || options+=(--pipe)
exec "$python" ../common/repeat.py --units "$messages" --says 'Time: ([0-9.]+)' hackbench "${options[@]}"
