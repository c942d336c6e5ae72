#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes the library of Lua, cleans up and makes it again, until the time is over.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S METASCHED_CPUS METASCHED_PARAM_COMPILER METASCHED_PARAM_JOBS \
    METASCHED_PARAM_OPTIMIZE
use_root
need_tool make "$METASCHED_PARAM_COMPILER"
jobs=$METASCHED_PARAM_JOBS
[ "$jobs" != twice ] || jobs=$((2 * METASCHED_CPUS))
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] ||
    fail "use jobs=$jobs" "that is neither a number nor 'twice'" "give another with --set jobs=NUMBER"
[[ $METASCHED_PARAM_OPTIMIZE =~ ^[0-3s]$ ]] ||
    fail "use optimize=$METASCHED_PARAM_OPTIMIZE" "that is not a level of GCC" \
        "give 0, 1, 2, 3 or s with --set optimize=LEVEL"

work=$(fresh_folder build)
cp -r "$METASCHED_RUN/root/source/src" "$work"
# The compiler's own files too lie in memory.
export COMPILE_LOG=$work/log COMPILE_END_US TMPDIR=$work
root=$METASCHED_RUN/root
if [ "$METASCHED_PARAM_COMPILER" = tcc ]; then
    own=$(compgen -G "$root/usr/lib/*/tcc") || fail "use tcc" "its files are not in '$root'" "prepare it anew"
    include=$root/usr/include
    # With the folder of headers that are this machine type's own.
    compiler="tcc -B$own -nostdinc -I$own/include -I$include/$(basename "$(dirname "$own")") -I$include"
    tools=(AR="tcc -ar rcs" RANLIB=true)
else
    compiler="gcc --sysroot=$root"
    tools=()
fi
make=(make --silent -C "$work/src" -j "$jobs" CC="$PWD/cc $compiler" "${tools[@]}"
    CFLAGS="-O$METASCHED_PARAM_OPTIMIZE -Wall -DLUA_COMPAT_5_3" a)
# Times are in microseconds.
now() { echo "${EPOCHREALTIME/[.,]/}"; }

began=$(now)
COMPILE_END_US=$(awk -v began="$began" -v seconds="$METASCHED_DURATION_S" \
    'BEGIN { printf "%.0f", began + seconds * 1e6 }')
while (($(now) < COMPILE_END_US)); do
    # What was made is removed as `make clean` does, but without a compiler of its own.
    rm -f "$work"/src/*.o "$work"/src/*.a
    "${make[@]}" >"$work/output" 2>&1 || (($(now) >= COMPILE_END_US)) ||
        fail "compile Lua" "$(grep -m1 -E 'error|\*\*\*' "$work/output" || tail -n 1 "$work/output")" \
            "see whether the memory file system is full, or prepare anew"
done
ended=$(now)
[ -s "$COMPILE_LOG" ] ||
    fail "compile Lua" "no file was finished in $METASCHED_DURATION_S s" "let it run longer"
exec "$python" figures.py "$COMPILE_LOG" $((ended - began))
