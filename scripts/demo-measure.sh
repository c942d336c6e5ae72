#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The measurements of demo.sh: in the guest, or on a machine whose kernel has sched_ext.
# The store is $METASCHED_STATE/results.db.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
readonly METASCHED=$PWD/target/release/metasched
readonly STORE=$METASCHED_STATE/results.db
# Long enough to see several turns of each application.
readonly SHOW_FOR=8s
# Three cycles of two turns at a base timeslice of 1300 ms, and a little.
readonly TUNE_LOAD=8s

echo "-- the application, part by part and whole, under every scheduler"
"$METASCHED" profile qa --store "$STORE" --duration "$DEMO_LOAD" --warmup 1s \
	--budget "$DEMO_PROFILE_BUDGET" || exit

echo "-- what each part prefers"
"$METASCHED" plan --store "$STORE" || exit

echo "-- the metaschedulers, and their base timeslice"
"$METASCHED" tune --store "$STORE" --duration "$TUNE_LOAD" --budget "$DEMO_TUNE_BUDGET" \
	--mechanism "$DEMO_MECHANISM" --lanes-by round-robin || exit

echo "-- what is recommended, for $SHOW_FOR"
"$METASCHED" run --store "$STORE" --for "$SHOW_FOR"
