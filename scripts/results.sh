#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Measures what the published tables are of, and what nobody has published: pairs of workloads.
#
#   scripts/results.sh [TABLE...]   one table after the other; all of them if none is named
#   scripts/results.sh --list       which tables there are
#
# Where this machine's kernel has sched_ext it is used; otherwise the testbed boots a guest for
# each table. Every measurement is in the store as soon as it is finished: Ctrl-C leaves
# nothing running, and the next call goes on from there. At the end there is a page for each
# workload of the table in report/results, and what was found as text in .cache/results.
#
# Environment: BUDGET            time for measuring each table, in s or m (default 40m); more makes
#                                intervals narrower
#              RESULTS_LOAD      time for one load              (default 4s)
#              METASCHED_STATE   where the store is             (default .cache/results)
#              GUEST_KERNEL      a kernel version for the guest (default: the newest sound one)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

export METASCHED_STATE=${METASCHED_STATE:-$PWD/.cache/results}
export RESULTS_LOAD=${RESULTS_LOAD:-4s}
readonly METASCHED=$PWD/target/release/metasched
readonly STORE=$METASCHED_STATE/results.db
readonly PAGES=$PWD/report/results
readonly MEASURE=$PWD/scripts/results-measure.sh
# Starting applications is not part of the budget, and a machine may be slow.
readonly GUEST_MORE_S=1800

readonly NAME=results GOES_ON='the same command'
. scripts/steps.sh || exit 1

budget=${BUDGET:-40m}
[[ $budget =~ ^([1-9][0-9]*)([sm])$ ]] ||
	die 2 "BUDGET=$budget is not a time; give one such as BUDGET=40m"
export RESULTS_BUDGET_S=${BASH_REMATCH[1]}
[ "${BASH_REMATCH[2]}" = s ] || RESULTS_BUDGET_S=$((RESULTS_BUDGET_S * 60))

mapfile -t known < <("$MEASURE" --list)
[ "${1:-}" != --list ] || {
	printf '%s\n' "${known[@]}"
	exit 0
}
tables=("$@")
[ $# -gt 0 ] || mapfile -t tables < <(printf '%s\n' "${known[@]}" | cut -d ' ' -f 1)
for table in "${tables[@]}"; do
	printf '%s\n' "${known[@]}" | grep -q "^$table " ||
		die 2 "there is no table '$table'; there are $(printf '%s\n' "${known[@]}" | cut -d ' ' -f 1 | paste -s -d ' ')"
done

mkdir -p "$METASCHED_STATE" "$PAGES" || exit 1
left_out=()
step "building"
run cargo build --release --locked --quiet -p metasched || exit

for table in "${tables[@]}"; do
	mapfile -t workloads < <("$MEASURE" --workloads "$table")
	if [ "$table" = bpfland ]; then
		step "$table: its original"
		run scripts/peers.sh scx_bpfland || echo "$NAME: goes on without scx_bpfland"
	fi
	step "$table: preparing ${workloads[*]}"
	for workload in "${workloads[@]}"; do
		run "$METASCHED" profile "$workload" --prepare-only || exit
	done
	step "$table: measuring, for $((RESULTS_BUDGET_S / 60)) min"
	if [ -e /sys/kernel/sched_ext/state ]; then
		run "$MEASURE" "$table"
	else
		# In parallel: figures of throughput and latency.
		run "$METASCHED" vm --cpus 2 --memory 4G --thread multi \
			--timeout "$((RESULTS_BUDGET_S + GUEST_MORE_S))s" \
			${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} --console "$METASCHED_STATE/console.log" \
			--rw "$METASCHED_STATE" --env METASCHED_STATE="$METASCHED_STATE" \
			--env RESULTS_LOAD="$RESULTS_LOAD" --env RESULTS_BUDGET_S="$RESULTS_BUDGET_S" \
			-- "$MEASURE" "$table"
	fi
	status=$?
	case $status in
		0) ;;
		1) left_out+=("$table") ;;
		130) stop ;;
		*) die "$status" "'$table' ended with an error; what was finished is in $STORE, and the same command goes on from there" ;;
	esac
	step "$table: what was found"
	shopt -s nullglob
	searches=("$METASCHED_STATE/$table"-*.txt)
	[ ${#searches[@]} -eq 0 ] || cat "${searches[@]}"
	for workload in "${workloads[@]}"; do
		# What could not be measured at all has nothing to show.
		"$METASCHED" plan --store "$STORE" --workload "$workload" || continue
		echo
		"$METASCHED" report --store "$STORE" --workload "$workload" --out "$PAGES/$workload.html" >/dev/null || exit
	done | tee "$METASCHED_STATE/$table.txt" || exit
done
[ ${#left_out[@]} -eq 0 ] ||
	die 1 "something was left out of ${left_out[*]}, see above; the same command tries it again"
