#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Exits with 0 if the back end listens, which it does when it can answer.
#
# The kernel's list, not the socket's file: one that was killed leaves its file. And no
# call, because starting Python to make it would slow down the start it waits for.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_RUN
listening=00010000
socket=$METASCHED_RUN/back.sock
while read -r _ _ _ flags _ _ _ path; do
    [ "$flags" = "$listening" ] && [ "$path" = "$socket" ] && exit 0
done </proc/net/unix
echo "the back end does not listen on '$socket' yet" >&2
exit 1
