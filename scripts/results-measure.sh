#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The measurements of results.sh: in the guest, or on a machine whose kernel has sched_ext.
#
#   scripts/results-measure.sh TABLE              measures it
#   scripts/results-measure.sh --list             the tables, each with what it is of
#   scripts/results-measure.sh --workloads TABLE  what is measured for one
#
# A table is a line for each workload: what is measured of it, under which schedulers (all policies
# if none is named), and whether turns and lanes are tuned then.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
readonly METASCHED=$PWD/target/release/metasched

# NAME WHAT
list() {
	cat <<'TABLES'
metaschedulers a web front end and a vector search, each alone and both, under every policy, turns and lanes
bpfland services and builds under bpfland and EEVDF, with the waits of their threads
priority a JVM that waits for its files and one that computes, under first in first out and three policies of priority
pairs dissimilar work at once, each with its own figures: single policies, turns and lanes
TABLES
}

# WORKLOAD|FORMS|SCHEDULERS|tune or -
lines() { # TABLE
	local priority=fifo,io-priority,weighted-average,no-starvation
	local few=vtime,fair,bpfland,rustland,ioprio
	case $1 in
		metaschedulers) echo 'qa|||tune' ;;
		bpfland)
			printf '%s|%s|bpfland,bpfland-2024|-\n' postgresql 'read-write read-only' hackbench full \
				nginx short apache2 short ffmpeg 'live upload'
			;;
		priority)
			printf "%s|%s|$priority|-\n" jvm-store full jvm-compiler full jvm-mix 'reactors page-rank'
			;;
		pairs)
			printf "%s||$few|tune\n" redis+batch nginx+compile postgresql+ffmpeg hackbench+cyclictest jvm-store+nginx
			;;
	esac
}

case ${1:-} in
	--list)
		list
		exit
		;;
	--workloads)
		lines "${2:?name a table}" | cut -d '|' -f 1
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
each=$((RESULTS_BUDGET_S / ${#all[@]}))
for line in "${all[@]}"; do
	IFS='|' read -r workload forms schedulers tune <<<"$line"
	share=$each
	# Two fifths for turns and lanes.
	[ "$tune" != tune ] || share=$((each * 3 / 5))
	options=(--store "$STORE" --duration "$RESULTS_LOAD" --warmup 1s --budget "${share}s")
	[ -z "$schedulers" ] || options+=(--schedulers "$schedulers")
	echo "-- $workload, under ${schedulers:-every policy}"
	# shellcheck disable=SC2086 # forms are words
	"$METASCHED" profile "$workload" $forms "${options[@]}" || exit
	if [ "$tune" = tune ]; then
		echo "-- $workload, turns and lanes"
		"$METASCHED" tune --store "$STORE" --workload "$workload" --duration 8s --warmup 1s \
			--mechanism lane --lanes-by round-robin --budget "$((each - share))s" || exit
	fi
done
