#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh active|passive [adapt]: runs the program again and again. Threads wait at barriers so, and
# adapt has as many of them as the host has room for.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_CACHE METASCHED_CPUS METASCHED_DURATION_S METASCHED_PARAM_PROGRAM METASCHED_PARAM_LIBRARY \
    METASCHED_PARAM_PAGE
for name in threads-per-cpu cells steps; do
    need_count "$name"
done
export OMP_WAIT_POLICY=$1 OMP_NUM_THREADS=$((METASCHED_CPUS * METASCHED_PARAM_THREADS_PER_CPU))
if [ "$METASCHED_PARAM_PROGRAM" = own ]; then
    [ -f "$METASCHED_CACHE/sum" ] ||
        fail "run ua" "'$METASCHED_CACHE/sum' is not there" "prepare the workload first"
    says='took ([0-9.]+) s'
    sum=$(<"$METASCHED_CACHE/sum")
    command=("$METASCHED_CACHE/ua" "$METASCHED_PARAM_CELLS" "$METASCHED_PARAM_STEPS" "$sum")
else
    [[ $METASCHED_PARAM_PROGRAM == /* && -x $METASCHED_PARAM_PROGRAM ]] ||
        fail "run program=$METASCHED_PARAM_PROGRAM" "that is not the whole path of a program" \
            "give another with --set program=FILE"
    says='(?s)Time in seconds\s*=\s*([0-9.]+).*Verification\s*=\s*SUCCESSFUL'
    command=("$METASCHED_PARAM_PROGRAM")
fi
if [ "${2:-}" = adapt ]; then
    library=$METASCHED_PARAM_LIBRARY
    # The loader only warns if it does not find it.
    LD_PRELOAD=$library LD_BIND_NOW=1 /bin/true 2>&1 | grep -q . &&
        fail "preload library=$library" "the loader does not find it" \
            "run make install and ldconfig, or give its path with --set library=FILE"
    command=(env "LD_PRELOAD=$library" "${command[@]}")
    if [ "$METASCHED_PARAM_PAGE" != none ]; then
        [ -r "$METASCHED_PARAM_PAGE" ] ||
            fail "use page=$METASCHED_PARAM_PAGE" "it cannot be read" "see metasched vms serve"
        export METASCHED_DOP_PAGE=$METASCHED_PARAM_PAGE
    fi
fi
PYTHONPATH=../common exec "$python" ../common/repeat.py --says "$says" "${command[@]}"
