#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/ua, and $METASCHED_CACHE/sum: what it computes with one thread.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_CACHE
need_count cells
need_count steps
command -v cc >/dev/null ||
    fail "compile ua.c" "there is no C compiler" "install gcc, which has OpenMP with it"
# No instruction that only some CPUs have: a guest's may be another than the host's.
cc -O2 -Wall -fopenmp -ffp-contract=off -o "$METASCHED_CACHE/ua" ua.c ||
    fail "compile ua.c" "see above" "install the compiler's OpenMP, such as the package gcc"
said=$(OMP_NUM_THREADS=1 "$METASCHED_CACHE/ua" "$METASCHED_PARAM_CELLS" "$METASCHED_PARAM_STEPS") || exit 1
said=${said#*sum }
echo "${said%%,*}" >"$METASCHED_CACHE/sum"
