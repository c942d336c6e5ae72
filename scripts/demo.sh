#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The whole of metasched on a real application: measure it under several schedulers, say
# which one each part prefers and how sure that is, run the metaschedulers over it, and
# show it all as a page.
#
#   scripts/demo.sh                  ends with a table and report/index.html
#   scripts/demo.sh --report-only    only writes the page again, from the store
#
# Where this machine's kernel has sched_ext it is used; otherwise the testbed boots one
# guest for all measurements. Every measurement is in the store as soon as it is finished:
# Ctrl-C leaves nothing running, and the next call goes on from there.
#
# Environment: DEMO_PROFILE_BUDGET   time for profiling     (default 12m; 200s once a demo
#                                                            has ended, for more rounds)
#              DEMO_TUNE_BUDGET      time for tuning        (default 430s, about the least for
#                                                            turns by lane and one set of lanes,
#                                                            three times)
#              DEMO_LOAD             time for one load      (default 4s)
#              DEMO_PEERS=1          build the published schedulers first (minutes, once), and
#                                    have turns by swap too, for which they tune for 12m
#              METASCHED_STATE       where the store is     (default .cache/demo)
#              GUEST_KERNEL          a kernel version for the guest (default: the newest sound one)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

export METASCHED_STATE=${METASCHED_STATE:-$PWD/.cache/demo}
readonly FINISHED=$METASCHED_STATE/finished
if [ -e "$FINISHED" ]; then
	budgets=(200s 430s)
else
	budgets=(12m 430s)
fi
export DEMO_MECHANISM=lane
if [ "${DEMO_PEERS:-}" = 1 ]; then
	budgets[1]=12m
	DEMO_MECHANISM=swap,lane
fi
export DEMO_PROFILE_BUDGET=${DEMO_PROFILE_BUDGET:-${budgets[0]}}
export DEMO_TUNE_BUDGET=${DEMO_TUNE_BUDGET:-${budgets[1]}}
export DEMO_LOAD=${DEMO_LOAD:-4s}
readonly METASCHED=$PWD/target/release/metasched
readonly STORE=$METASCHED_STATE/results.db
readonly REPORT=$PWD/report/index.html
# Long enough for both budgets, the start of the application, and a slow machine.
readonly GUEST_TIMEOUT=40m

readonly NAME=demo GOES_ON="'make demo'"
. scripts/steps.sh || exit 1

write_report() {
	local benches=() output
	for output in .cache/bench/*/output.txt; do
		[ ! -s "$output" ] || benches+=(--bench "$output")
	done
	"$METASCHED" report --store "$STORE" --out "$REPORT" "${benches[@]}" || exit
}

case ${1:-} in
	"") ;;
	--report-only)
		[ -e "$STORE" ] || die 3 "there is nothing to report on yet; run 'make demo' first"
		run cargo build --release --locked --quiet -p metasched || exit
		write_report
		exit
		;;
	*) die 2 "unknown option '$1'; there is only --report-only" ;;
esac

mkdir -p "$METASCHED_STATE" "$(dirname "$REPORT")" || exit 1

step "building"
run cargo build --release --locked -p metasched || exit

if [ "${DEMO_PEERS:-}" = 1 ]; then
	step "building published schedulers"
	run scripts/peers.sh || exit
fi

step "preparing the application"
run "$METASCHED" profile qa --prepare-only || exit

if [ -e /sys/kernel/sched_ext/state ]; then
	step "measuring on this machine"
	run scripts/demo-measure.sh
else
	step "measuring in the testbed, since this kernel has no sched_ext"
	# In parallel: figures of throughput and latency.
	run "$METASCHED" vm --cpus 2 --memory 4G --thread multi --timeout "$GUEST_TIMEOUT" \
		${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} --console "$METASCHED_STATE/console.log" \
		--rw "$METASCHED_STATE" --env METASCHED_STATE="$METASCHED_STATE" \
		--env DEMO_LOAD="$DEMO_LOAD" --env DEMO_MECHANISM="$DEMO_MECHANISM" --env DEMO_PROFILE_BUDGET="$DEMO_PROFILE_BUDGET" --env DEMO_TUNE_BUDGET="$DEMO_TUNE_BUDGET" \
		-- "$PWD/scripts/demo-measure.sh"
fi
status=$?
case $status in
	0) ;;
	130) stop ;;
	*) die "$status" "the measurements ended with an error; what was finished is in $STORE, and 'make demo' goes on from there" ;;
esac

step "what was found"
"$METASCHED" plan --store "$STORE" || exit
step "the page"
write_report
touch "$FINISHED"
