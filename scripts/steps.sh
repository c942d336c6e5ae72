# SPDX-License-Identifier: GPL-2.0-only
#
# Long steps one after the other, which Ctrl-C ends in order; for other scripts, which source it. They
# have set
#
#   NAME      what stands before what they say
#   STORE     where what was measured is
#   GOES_ON   the command that goes on from there

step() { printf '\n== %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
die() { # STATUS MESSAGE
	echo "$NAME: $2" >&2
	exit "$1"
}

# Every long step has a process group of its own and is sent a signal exactly once, be it
# from a terminal or to this script alone: a second one would end metasched at once.
set -m
child=
stop() {
	trap '' INT TERM HUP
	if [ -n "$child" ]; then
		kill -INT -- "-$child" 2>/dev/null
		wait "$child" 2>/dev/null
	fi
	die 130 "stopped; what was measured is in $STORE, and $GOES_ON goes on from there"
}
trap stop INT TERM HUP

run() { # COMMAND...
	"$@" </dev/null &
	child=$!
	wait "$child"
	local status=$?
	child=
	return "$status"
}
