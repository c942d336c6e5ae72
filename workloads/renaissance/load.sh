#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the benchmark, and prints the figures that its harness wrote down.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_PARAM_JAR METASCHED_PARAM_BENCHMARK METASCHED_PARAM_RUNS \
    METASCHED_PARAM_DROP_PERCENT METASCHED_PARAM_CONFIGURATION
need_count heap_mb
here=$PWD
java=$METASCHED_RUN/java/java/bin/java
[ -x "$java" ] || fail "start the JVM" "there is none in '$METASCHED_RUN'" "stage the workload first"
[[ $METASCHED_PARAM_BENCHMARK =~ ^[a-z][a-z0-9-]*$ ]] ||
    fail "run '$METASCHED_PARAM_BENCHMARK'" "that is not the name of one benchmark" \
        "give one, such as --set benchmark=dotty"
[[ $METASCHED_PARAM_RUNS =~ ^[0-9]{1,4}$ ]] ||
    fail "use runs=$METASCHED_PARAM_RUNS" "that is not a number of runs" "give --set runs=20, or 0 for a time"
if ((METASCHED_PARAM_RUNS > 0)); then
    amount=(--repetitions "$METASCHED_PARAM_RUNS")
else
    amount=(--run-seconds "$(whole_seconds)")
fi

# The harness unpacks the benchmark into the folder that it is started in.
work=$(fresh_folder renaissance)
cd "$work"
"$java" -Xmx"$METASCHED_PARAM_HEAP_MB"m -XX:-UsePerfData -Djava.io.tmpdir="$work" \
    -jar "$METASCHED_PARAM_JAR" "${amount[@]}" --configuration "$METASCHED_PARAM_CONFIGURATION" \
    --csv "$work/runs.csv" "$METASCHED_PARAM_BENCHMARK" >&2 ||
    fail "run the benchmark '$METASCHED_PARAM_BENCHMARK'" "the harness ended with status $?" \
        "see its words above"
exec "$python" "$here/figures.py" "$work/runs.csv" "$METASCHED_PARAM_BENCHMARK" \
    "$METASCHED_PARAM_DROP_PERCENT"
