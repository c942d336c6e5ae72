#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the tests and ends with one line of totals.
#
#   scripts/test.sh unit     what runs on this machine as it is: Rust (style among it), Python
#   scripts/test.sh lint     what tools find wrong without running anything: scripts/lint.sh
#   scripts/test.sh guest    what needs a kernel with sched_ext: every test that is marked
#                            `#[ignore]`, in the testbed
#
# Several may be given. A guest that dies counts as a failure of the test program that ran;
# the remaining ones go on in a new guest. Logs are kept in .cache/test.
#
#   scripts/test.sh --decide rust|python LOG STATUS
#   scripts/test.sh --decide guest FOLDER
#
# only says what is made of a log and an exit status, or of what guests left, for a test.
#
# Environment: GUEST_KERNEL    a kernel version for the guest (default: the newest sound one)
#              GUEST_TIMEOUT   time for a whole guest (default 2400s)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

readonly LOGS=$PWD/.cache/test
# What the guests leave: their test programs, and the log and the exit status of each.
guests=$LOGS/guest
# The test programs of the first guest: the longest, and those tests of another one with which both
# guests take about as long.
readonly FIRST_GUEST=crates/loader ALSO_OF=crates/control ALSO=(hang:: published::)
# And those of the latter that need a host of KVM, which run when the other guests are done.
readonly KVM=kvm::
passed=0 failed=0
failures=()
# What makes the published scheduler for guests meanwhile.
ahead=

say() { echo "test: $*"; }

fail() { # NAME WHY
	failed=$((failed + 1))
	failures+=("$1: $2")
}

rust_result() { # NAME LOG STATUS: adds the totals of test programs; no test is no success
	local totals ok bad
	totals=$(awk '/^test result:/ { p += $4; f += $6 } END { print p + 0, f + 0 }' "$2")
	ok=${totals% *} bad=${totals#* }
	passed=$((passed + ok))
	failed=$((failed + bad))
	if [ "$bad" != 0 ]; then
		failures+=("$1: $(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$2" | paste -s -d ' ')")
	elif [ "$3" != 0 ]; then
		# It did not build, or a test program died.
		fail "$1" "it ended with status $3, and no test failed; see $2"
	elif [ "$ok" = 0 ]; then
		fail "$1" "no test ran; see $2"
	fi
}

python_result() { # NAME LOG STATUS: likewise
	local ran bad
	ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} .*/\1/p' "$2")
	bad=$(sed -n 's/^FAILED (\(.*\))$/\1/p' "$2" | tr ',' '\n' |
		awk -F = '/failures|errors|unexpected/ { n += $2 } END { print n + 0 }')
	if [ "${ran:-0}" = 0 ]; then
		fail "$1" "no test ran; see $2"
		return
	fi
	# An error while a class is set up is counted, and none of its tests has run.
	passed=$((passed + (ran > bad ? ran - bad : 0)))
	failed=$((failed + bad))
	if [ "$bad" != 0 ]; then
		failures+=("$1: $bad in $2")
	elif [ "$3" != 0 ]; then
		fail "$1" "it ended with status $3, and no test failed; see $2"
	fi
}

# Without the examples, which have no tests: whether they compile is for lint.
rust_tests() {
	local kind status=0
	for kind in --tests --doc; do
		cargo test --release --workspace --locked --no-fail-fast "$kind" || status=$?
	done
	return "$status"
}

unit() {
	say "Rust"
	rm -f "$LOGS/unit.log"
	rust_tests 2>&1 | tee "$LOGS/unit.log" |
		grep -v -E '^$|^running 0 tests|\.\.\. (ok|ignored)|^     Running|^test result: ok\. 0 passed|^   Doc-tests'
	rust_result unit "$LOGS/unit.log" "${PIPESTATUS[0]}"
	unoptimised
	local folder name
	for folder in workloads/*/tests; do
		[ -d "$folder" ] || continue
		name=$(basename "$(dirname "$folder")")
		say "Python, $folder"
		python_tests "$name" "$folder"
	done
}

# The simulator says the same to the byte, however it, the policies and the scenarios were compiled: here as a debug
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
	cargo test --release --workspace --locked "${configs[@]}" --test digests 2>&1 |
		tee "$LOGS/unoptimised.log" | grep -E '^(error|test |thread|    \()'
	rust_result unoptimised "$LOGS/unoptimised.log" "${PIPESTATUS[0]}"
}

python_tests() { # NAME FOLDER
	local log=$LOGS/python-$1.log status
	/usr/bin/python3 -m unittest discover -v -s "$2" -t "$(dirname "$2")" >"$log" 2>&1
	status=$?
	[ "$status" = 0 ] || tail -n 30 "$log"
	python_result "$1" "$log" "$status"
}

lint() {
	say "what tools find wrong"
	local check log
	for check in $(scripts/lint.sh --list); do
		log=$LOGS/lint-$check.log
		if scripts/lint.sh "$check" >"$log" 2>&1; then
			passed=$((passed + 1))
		else
			tail -n 60 "$log"
			fail "lint" "$check is not clean; see $log"
		fi
	done
}

# Prints "PROGRAM<tab>FOLDER<tab>WHICH" for every test program that has tests for the guest; which of
# its tests, as arguments to it, and a line for each guest if they are more than one.
guest_programs() {
	local program folder
	cargo test --release --workspace --locked --tests --no-run --message-format=json 2>"$LOGS/build.log" |
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
			printf '%s\t%s\t%s\n' "$program" "$folder" "$KVM"
			printf '%s\t%s\t%s\n' "$program" "$folder" "${ALSO[*]/#/--skip } --skip $KVM"
		else
			printf '%s\t%s\t\n' "$program" "$folder"
		fi
	done
}

guest() {
	say "in the guest, on a kernel with sched_ext"
	local out=$guests
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
	# Tests change to a published scheduler and back, which they find as users' schedulers are found:
	# on PATH, which a guest takes from here. Without one they fail.
	local peers
	[ -z "$ahead" ] || wait "$ahead" 2>/dev/null
	if peers=$(scripts/kernel-peers.sh scx_simple); then
		PATH=$peers:$PATH
	else
		fail guest "there is no published scheduler for the tests"
	fi
	# Two guests, since emulation takes one CPU each.
	local numbers first second third pids
	numbers=$(seq "$total")
	mapfile -t first < <(awk -F '\t' -v program="/$FIRST_GUEST\$" -v also="${ALSO[*]}" \
		'$2 ~ program || $3 == also { print NR }' "$out/programs")
	mapfile -t third < <(awk -F '\t' -v kvm="$KVM" '$3 == kvm { print NR }' "$out/programs")
	mapfile -t second < <(grep -v -x -F "$(printf '%s\n' "${first[@]}" "${third[@]}")" <<<"$numbers")
	set -m
	in_a_guest 1 "${first[@]}" &
	pids=($!)
	in_a_guest 2 "${second[@]}" &
	pids+=($!)
	trap 'kill -INT -- "${pids[@]/#/-}" 2>/dev/null; wait; exit 130' INT TERM
	wait "${pids[@]}"
	in_a_guest 3 "${third[@]}" &
	pids=($!)
	wait "${pids[@]}"
	trap - INT TERM
	set +m
	say "what took longest there, in seconds:"
	sort -rn "$out"/*.times 2>/dev/null | head -n 8
	guest_results
}

# Runs test programs in a guest. One that dies takes one program with it; the others go
# on in a new guest, so this ends. The first worker's machine has a last-level cache for each of its
# two CPUs, those of others have one cache: policies do other things there. The third's can run virtual
# machines with KVM; emulated by a single thread, these stand still as they boot.
in_a_guest() { # WORKER INDEX...
	local worker=$1 out=$guests first machine
	case $worker in
		1) machine=(--topology "sockets=2,cores=1" --thread single) ;;
		2) machine=(--cpus 2 --thread single) ;;
		*) machine=(--cpus 2 --thread multi --kvm-host) ;;
	esac
	shift
	while [ $# -gt 0 ]; do
		first=$1
		target/release/metasched vm "${machine[@]}" --memory 3G \
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
	sed -n "$1p" "$guests/programs" |
		sed 's,^.*/\([^/]*\)-[0-9a-f]*\t.*/\([^/]*\)\t\(.*\)$,\2/\1 \3,; s, $,,'
}

guest_results() {
	local n log name
	for n in $(seq "$(wc -l <"$guests/programs")"); do
		log=$guests/$n.log
		name=$(program_name "$n")
		if [ -e "$guests/$n.status" ]; then
			rust_result "$name" "$log" "$(cat "$guests/$n.status")"
			continue
		fi
		fail "$name" "the guest ended while it ran; see $log and $guests/console-*.log"
		[ ! -e "$log" ] || tail -n 20 "$log"
	done
}

verdict() {
	local failure
	for failure in "${failures[@]}"; do say "FAILED $failure"; done
	say "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

case "$#:${1:-}:${2:-}" in
	0:*) sed -n '3,21s/^# \{0,1\}//p' "$0"; exit 2 ;;
	4:--decide:rust | 4:--decide:python)
		"$2_result" "$2" "$3" "$4"
		verdict
		exit
		;;
	3:--decide:guest)
		guests=$3
		guest_results
		verdict
		exit
		;;
esac
mkdir -p "$LOGS" || exit 1
# It is fetched and built while other tests run, some of which wait for what takes time.
if [ $# -gt 1 ] && [ "${*: -1}" = guest ]; then
	set -m
	scripts/kernel-peers.sh scx_simple >"$LOGS/peers.log" 2>&1 </dev/null &
	ahead=$!
	set +m
	trap 'kill -- "-$ahead" 2>/dev/null' EXIT
fi
for what in "$@"; do
	case $what in
		unit | lint | guest) "$what" ;;
		*) echo "test: there is no '$what'; there are unit, lint and guest" >&2; exit 2 ;;
	esac
done
verdict
