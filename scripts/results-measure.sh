#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The measurements of results.sh: in the guest, or on a machine whose kernel has sched_ext.
#
#   scripts/results-measure.sh TABLE              measures it
#   scripts/results-measure.sh --list             the tables, each with what it is of
#   scripts/results-measure.sh --workloads TABLE  what is measured for one
#
# A table is a line for each measurement, with the part of the time that it gets.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
readonly METASCHED=$PWD/target/release/metasched

# NAME WHAT
list() {
	cat <<'TABLES'
metaschedulers a web front end and a vector search, each alone and both, under every policy, turns and lanes
bpfland services and builds under bpfland and EEVDF, with the waits of their threads and of their clients
priority a JVM that waits for its files and one that computes, under first in first out and three policies of priority
slices the same two under slices and slices of priority of 5 to 80 ms, and their threshold and average
pairs dissimilar work at once, each with its own figures: single policies, turns and lanes
storms each part of the pairs beside a storm of forks
TABLES
}

peer() { # NAME: with a comma before it, if this machine has it
	! "$METASCHED" list 2>/dev/null | grep -qw "$1" || echo ",$1"
}

# After the part, one of
#	profile|WORKLOAD|FORMS|SCHEDULERS	under every policy if no scheduler is named
#	tune|WORKLOAD|BASE SLICES		turns and lanes of what profile found; the slices are searched
#						if none is named
#	coordinate|WORKLOADS|SCHEDULER|OPTIONS
lines() { # TABLE
	local priority=fifo,io-priority,weighted-average,no-starvation
	local few=vtime,fair,bpfland,rustland,ioprio
	local jvm=jvm-store:full,jvm-compiler:full
	local slices=slice=5ms:10ms:20ms:40ms:80ms prio_slices=prio_slice=10ms:20ms:40ms:80ms pair part compared
	case $1 in
		metaschedulers) printf '%s\n' '3|profile|qa||' '2|tune|qa' ;;
		bpfland)
			compared=bpfland,bpfland-2024$(peer scx_bpfland)
			printf '1|profile|%s|%s|%s\n' postgresql 'read-write read-only' "$compared" hackbench full "$compared" \
				nginx short "$compared" apache2 short "$compared" ffmpeg 'live upload' "$compared"
			;;
		priority)
			printf "1|profile|%s|%s|%s\n" jvm-store full "$priority" jvm-compiler full "$priority" \
				jvm-mix 'reactors page-rank' "$priority"
			;;
		slices)
			# Two of the four that were published: all of them would take an hour and a half.
			echo "2|coordinate|$jvm|rr|$slices"
			for policy in no-starvation io-priority weighted-average; do
				echo "4|coordinate|$jvm|$policy:prio_slice=10ms|$slices,$prio_slices"
			done
			echo "3|coordinate|$jvm|no-starvation|threshold=1:5:20,average=0:900:990"
			;;
		pairs)
			for pair in redis+batch nginx+compile postgresql+ffmpeg hackbench+cyclictest jvm-store+nginx; do
				echo "1|profile|$pair|both|$few"
				echo "1|tune|$pair|50ms"
			done
			;;
		storms)
			for part in redis batch nginx compile postgresql ffmpeg hackbench cyclictest jvm-store; do
				echo "1|profile|$part+forks|both|$few"
			done
			;;
	esac
}

case ${1:-} in
	--list)
		list
		exit
		;;
	--workloads)
		# jvm-store:full is of jvm-store.
		lines "${2:?name a table}" | cut -d '|' -f 3 | tr , '\n' | cut -d : -f 1 | awk '!seen[$0]++'
		exit
		;;
esac
table=${1:?name a table}
: "${METASCHED_STATE:?where the store is}" "${RESULTS_LOAD:?how long a load is}" "${RESULTS_BUDGET_S:?how long to measure}"
readonly STORE=$METASCHED_STATE/results.db

mapfile -t all < <(lines "$table")
[ ${#all[@]} -gt 0 ] || {
	echo "results: there is no table '$table'" >&2
	exit 2
}
# One that failed, or that left a scheduler out, costs nothing but itself; Ctrl-C ends all.
left_out=0
leaves_out() { # STATUS
	[ "$1" != 130 ] || exit 130
	left_out=1
}
parts=$(lines "$table" | cut -d '|' -f 1 | paste -s -d +)
for line in "${all[@]}"; do
	IFS='|' read -r part what workload forms schedulers <<<"$line"
	common=(--store "$STORE" --warmup 2s --budget "$((RESULTS_BUDGET_S * part / (parts)))s")
	case $what in
		profile)
			echo "-- $workload, under ${schedulers:-every policy}"
			options=("${common[@]}" --duration "$RESULTS_LOAD")
			[ -z "$schedulers" ] || options+=(--schedulers "$schedulers")
			# What was published is of all of them; of pairs the best is looked for.
			[ "$table" = pairs ] || [ "$table" = storms ] || options+=(--keep-all)
			# shellcheck disable=SC2086 # forms are words
			"$METASCHED" profile "$workload" $forms "${options[@]}" || leaves_out $?
			;;
		tune)
			echo "-- $workload, turns and lanes"
			"$METASCHED" tune --workload "$workload" "${common[@]}" --duration 6s \
				--mechanism lane --strategy round-robin ${forms:+--base-slice "$forms"} || leaves_out $?
			;;
		coordinate)
			echo "-- $forms, its options"
			"$METASCHED" tune --workload "$workload" "${common[@]}" --duration "$RESULTS_LOAD" \
				--scheduler "$forms" --coordinate "$schedulers" |
				tee "$METASCHED_STATE/$table-${forms%%:*}-${schedulers%%=*}.txt" || leaves_out $?
			;;
	esac
done
exit "$left_out"
