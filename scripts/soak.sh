#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Changes lanes, assignments, weights, affinities and CPUs at random under load, in the
# testbed, and checks that all tasks run and nothing is left over.
#
#   scripts/soak.sh [SECONDS]     for so long (default 600)
#
# It prints its seed; METASCHED_SEED makes the same choices again.
#
# Environment: METASCHED_SEED   the seed (default: another one each time)
#              GUEST_KERNEL     a kernel version for the guest (default: the newest sound one)
set -eu -o pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
case $seconds in
	*[!0-9]* | "") sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
cargo build --release --workspace --locked --quiet
program=$(cargo test --release --locked --package metasched-loader --test guest --no-run \
	--message-format=json 2>/dev/null |
	/usr/bin/python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["executable"])
')
# Loading and unloading is safest with one thread, and CPUs go off line. Two caches of two CPUs.
target/release/metasched vm --topology sockets=2,cores=2 --memory 3G --thread single \
	--timeout "$((seconds + 300))s" ${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} \
	--env METASCHED_SOAK_S="$seconds" ${METASCHED_SEED:+--env METASCHED_SEED="$METASCHED_SEED"} -- \
	"$program" --ignored --nocapture lanes_hold_while_everything_changes_at_random
