#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs in the guest, called by test-external.sh: TEST so many times under each scheduler, in
# turn; leaves OUT/SCHEDULER.ROUND.log.
#
#   test-external-in-guest.sh OUT TEST ROUNDS
set -u
readonly OUT=$1 TEST=$2 ROUNDS=$3
readonly METASCHED=${0%/scripts/*}/target/release/metasched
# Its loads take a minute; one that hangs must not take the others' time.
readonly TEST_TIMEOUT_S=240
readonly START_TIMEOUT_S=60

die() {
	echo "test-external: $1" >&2
	exit 1
}

in_force() { # whether a scheduler of ours is
	[ "$(cat /sys/kernel/sched_ext/state)" = enabled ]
}

# With ROUND's lanes to be looked at, where there are some.
run_test() { # SCHEDULER ROUND [LANES]
	timeout --kill-after=10 $TEST_TIMEOUT_S stdbuf -oL "$TEST" </dev/null 2>&1 | {
		watcher=
		while IFS= read -r line; do
			echo "$line"
			[[ -z ${3:-} || $line != *'ok '*test_cpucg_nice* ]] ||
				{ watch_lanes "$2" & watcher=$!; }
		done
		wait $watcher
	} >"$OUT/$1.$2.log"
	echo "$1, $2 of $ROUNDS: $(grep -c '^ok ' "$OUT/$1.$2.log") of $(grep -c -E '^(not )?ok ' "$OUT/$1.$2.log") passed"
}

# What is measured has to be what is meant: that the test's cgroups are on lanes is looked at
# while its loads of weights run, and not before: whoever looks takes the emulator from the CPU that runs
# the test, which then misses ticks, and the kernel's count of nice time goes by ticks.
watch_lanes() { # ROUND
	for ((i = 0; i < TEST_TIMEOUT_S * 5; i++)); do
		[ ! -e /sys/fs/cgroup/cpucg_test_0/cpucg_child_2 ] || break
		sleep 0.2
	done
	sleep 3
	"$METASCHED" lane list >"$OUT/lanes.$1.txt" 2>&1
}

uname -r >"$OUT/kernel"
for round in $(seq "$ROUNDS"); do
	! in_force || die "a scheduler was left in force"
	run_test eevdf "$round"

	"$METASCHED" start fair >/dev/null || die "cannot start 'fair'"
	run_test fair "$round"
	in_force || die "'fair' has left the kernel"
	"$METASCHED" stop >/dev/null || die "cannot stop 'fair'"

	"$METASCHED" rules "$OUT/lanes.toml" >"$OUT/rules.$round.txt" 2>&1 &
	rules=$!
	for ((i = 0; i < START_TIMEOUT_S * 5; i++)); do
		# It says what goes where as soon as that holds.
		[ ! -s "$OUT/rules.$round.txt" ] || break
		sleep 0.2
	done
	in_force || die "the lanes are not there: $(cat "$OUT/rules.$round.txt")"
	run_test lanes "$round" watched
	[ "$(grep -c -E '^cpucg_[^ ]*(child|leaf)_[0-9] .* in force ' "$OUT/lanes.$round.txt")" = 3 ] ||
		die "the test's cgroups were not on lanes of their own: $(cat "$OUT/lanes.$round.txt")"
	in_force || die "the lanes have left the kernel: $(cat "$OUT/rules.$round.txt")"
	# A shell's background job ignores SIGINT.
	kill -TERM $rules
	wait $rules
	sync
done
