#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the tests and ends with one line of totals.
#
#   scripts/test.sh unit     what runs on this machine as it is: Rust (style among it), Python
#   scripts/test.sh guest    what needs a kernel with sched_ext: every test that is marked
#                            `#[ignore]`, in the testbed
#
# Both may be given. A guest that dies counts as a failure of the test program that ran;
# the remaining ones go on in a new guest. Logs are kept in .cache/test.
#
# Environment: GUEST_KERNEL    a kernel version for the guest (default: the newest sound one)
#              GUEST_TIMEOUT   time for a whole guest (default 2400s)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

readonly LOGS=$PWD/.cache/test
# The test programs of the first guest: the longest, and those tests of another one with which both
# guests take about as long.
readonly FIRST_GUEST=crates/loader ALSO_OF=crates/control ALSO=(hang::)
mkdir -p "$LOGS" || exit 1
passed=0 failed=0
failures=()

say() { echo "test: $*"; }

count() { # NAME LOG: adds the log's totals; returns 1 if it has none
	local totals
	totals=$(awk '/^test result:/ { p += $4; f += $6; n++ } END { if (n) print p, f }' "$2")
	[ -n "$totals" ] || return 1
	passed=$((passed + ${totals% *}))
	failed=$((failed + ${totals#* }))
	[ "${totals#* }" = 0 ] || failures+=("$1: $(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$2" | paste -s -d ' ')")
}

fail() { # NAME WHY
	failed=$((failed + 1))
	failures+=("$1: $2")
}

unit() {
	say "Rust"
	rm -f "$LOGS/unit.log"
	cargo test --release --workspace --locked --no-fail-fast 2>&1 | tee "$LOGS/unit.log" |
		grep -v -E '^$|^running 0 tests|\.\.\. (ok|ignored)|^     Running|^test result: ok\. 0 passed|^   Doc-tests'
	local status=${PIPESTATUS[0]}
	count unit "$LOGS/unit.log"
	# It failed, and not in a test: it did not build, or a test program died.
	if [ "$status" != 0 ] && ! grep -q '^test result: FAILED' "$LOGS/unit.log"; then
		fail unit "see the above, or $LOGS/unit.log"
	fi
	unoptimised || fail unoptimised "see the above, or $LOGS/unoptimised.log"
	local folder name
	for folder in workloads/*/tests; do
		[ -d "$folder" ] || continue
		name=$(basename "$(dirname "$folder")")
		say "Python, $folder"
		python_tests "$name" "$folder" || fail "$name" "see $LOGS/python-$name.log"
	done
}

# The simulator says the same to the byte, however it and the scenarios were compiled: here as a debug
# build is, but for what else it depends on, which would have to be compiled anew. So it would be with -p in place of
# --workspace, since features are those of the packages that are asked for.
unoptimised() {
	say "Rust, the simulator unoptimised"
	local package setting configs=()
	for package in metasched-sim metasched-scenario; do
		for setting in opt-level=0 debug-assertions=true overflow-checks=true; do
			configs+=(--config "profile.release.package.$package.$setting")
		done
	done
	cargo test --release --workspace --locked "${configs[@]}" --test sim digests:: 2>&1 |
		tee "$LOGS/unoptimised.log" | grep -E '^(error|test |thread|    \()'
	count unoptimised "$LOGS/unoptimised.log" || return 1
	# No test ran: that is no success.
	grep -q '^test result: .* [1-9][0-9]* \(passed\|failed\)' "$LOGS/unoptimised.log"
}

python_tests() { # NAME FOLDER
	local log=$LOGS/python-$1.log ran bad
	/usr/bin/python3 -m unittest discover -v -s "$2" -t "$(dirname "$2")" >"$log" 2>&1
	local status=$?
	ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} .*/\1/p' "$log")
	bad=$(sed -n 's/^FAILED (\(.*\))$/\1/p' "$log" | tr -c '0-9\n' ' ' | awk '{ for (i = 1; i <= NF; i++) n += $i } END { print n + 0 }')
	[ "$status" = 0 ] || tail -n 30 "$log"
	# No test ran: that is no success.
	[ "${ran:-0}" -gt 0 ] || return 1
	passed=$((passed + ran - bad))
	failed=$((failed + bad))
	[ "$status" = 0 ] || failures+=("$1: $bad in $log")
}

# Prints "PROGRAM<tab>FOLDER<tab>WHICH" for every test program that has tests for the guest; which of
# its tests, as arguments to it, and a line for each guest if they are more than one.
guest_programs() {
	local program folder
	cargo test --release --workspace --locked --no-run --message-format=json 2>"$LOGS/build.log" |
		/usr/bin/python3 -c '
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["executable"], os.path.dirname(message["manifest_path"]), sep="\t")
' | while IFS=$'\t' read -r program folder; do
		# Read to its end: with pipefail a reader that stops early looks like a failure.
		[ "$("$program" --list --ignored 2>/dev/null | grep -c ': test$')" -gt 0 ] || continue
		if [[ $folder == *"/$ALSO_OF" ]]; then
			printf '%s\t%s\t%s\n' "$program" "$folder" "${ALSO[*]}"
			printf '%s\t%s\t%s\n' "$program" "$folder" "${ALSO[*]/#/--skip }"
		else
			printf '%s\t%s\t\n' "$program" "$folder"
		fi
	done
}

guest() {
	say "in the guest, on a kernel with sched_ext"
	local out=$LOGS/guest
	rm -rf "$out" && mkdir -p "$out" || exit 1
	if ! guest_programs >"$out/programs"; then
		fail guest "the tests do not build; see $LOGS/build.log"
		return
	fi
	local total
	total=$(wc -l <"$out/programs")
	if [ "$total" = 0 ]; then
		fail guest "there is no test for the guest"
		return
	fi
	# Two guests, since emulation takes one CPU each.
	local numbers first second pids
	numbers=$(seq "$total")
	mapfile -t first < <(awk -F '\t' -v program="/$FIRST_GUEST\$" -v also="${ALSO[*]}" \
		'$2 ~ program || $3 == also { print NR }' "$out/programs")
	mapfile -t second < <(grep -v -x -F "$(printf '%s\n' "${first[@]}")" <<<"$numbers")
	set -m
	in_a_guest 1 "${first[@]}" &
	pids=($!)
	in_a_guest 2 "${second[@]}" &
	pids+=($!)
	trap 'kill -INT -- "-${pids[0]}" "-${pids[1]}" 2>/dev/null; wait; exit 130' INT TERM
	wait "${pids[@]}"
	trap - INT TERM
	set +m
	say "what took longest there, in seconds:"
	sort -rn "$out"/*.times 2>/dev/null | head -n 8
	local next
	for next in $numbers; do
		if [ -e "$out/$next.status" ]; then
			guest_result "$next"
			continue
		fi
		fail "$(program_name "$next")" "the guest ended while it ran; see $out/$next.log and $out/console-*.log"
		[ ! -e "$out/$next.log" ] || tail -n 20 "$out/$next.log"
	done
}

# Runs test programs in a guest. One that dies takes one program with it; the others go
# on in a new guest, so this ends. The first worker's machine has a last-level cache for each of its
# two CPUs, those of others have one cache: policies do other things there.
in_a_guest() { # WORKER INDEX...
	local worker=$1 out=$LOGS/guest first machine=(--cpus 2)
	[ "$worker" != 1 ] || machine=(--topology "sockets=2,cores=1")
	shift
	while [ $# -gt 0 ]; do
		first=$1
		target/release/metasched vm "${machine[@]}" --memory 3G --thread single \
			--timeout "${GUEST_TIMEOUT:-2400s}" ${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} \
			--console "$out/console-$worker-$first.log" --rw "$out" -- \
			scripts/test-in-guest.sh "$out" "$@" </dev/null | sed -u "s/^/$worker: /" ||
			[ $? != 130 ] || exit 130
		while [ $# -gt 0 ] && [ -e "$out/$1.status" ]; do shift; done
		# What has no status is the one that the guest died in.
		[ $# = 0 ] || shift
	done
}

program_name() { # INDEX: its folder and its file, as in loader/guest, and which tests
	sed -n "$1p" "$LOGS/guest/programs" |
		sed 's,^.*/\([^/]*\)-[0-9a-f]*\t.*/\([^/]*\)\t\(.*\)$,\2/\1 \3,; s, $,,'
}

guest_result() { # INDEX
	local log=$LOGS/guest/$1.log name status
	name=$(program_name "$1")
	status=$(cat "$LOGS/guest/$1.status")
	if ! count "$name" "$log"; then
		fail "$name" "it ended (status $status) without a result; see $log"
	elif [ "$status" != 0 ] && ! grep -q '^test result: FAILED' "$log"; then
		fail "$name" "it ended with status $status; see $log"
	fi
}

[ $# -gt 0 ] || { sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 2; }
for what in "$@"; do
	case $what in
		unit) unit ;;
		guest) guest ;;
		*) echo "test: there is no '$what'; there are unit and guest" >&2; exit 2 ;;
	esac
done

for failure in "${failures[@]}"; do say "FAILED $failure"; done
say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
