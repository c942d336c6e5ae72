#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/root.tar: the program of a function, compiled by tcc.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
need METASCHED_CACHE
[ ! -f "$METASCHED_CACHE/root.tar" ] || exit 0

fetch_packages tcc libc6-dev linux-libc-dev
whole=$METASCHED_CACHE/whole
mv "$METASCHED_CACHE/root" "$whole"
own=$(compgen -G "$whole/usr/lib/*/tcc") || fail "use tcc" "its files are not in '$whole'" "report it"
lib=$(dirname "$own")
kind=$(basename "$lib")
include=$whole/usr/include
mkdir -p "$METASCHED_CACHE/root/usr/bin"
# With the system's own libraries, which are found where the loader finds them: what libc6-dev has of them
# are scripts for a linker, with absolute paths.
"$whole/usr/bin/tcc" -Wall -Werror "-B$own" -nostdinc "-I$own/include" "-I$include/$kind" "-I$include" \
    -nostdlib -o "$METASCHED_CACHE/root/usr/bin/function" "$lib/crt1.o" "$lib/crti.o" function.c \
    "/lib/$kind/libc.so.6" "/lib/$kind/libm.so.6" "$own/libtcc1.a" "$lib/crtn.o" ||
    fail "compile function.c" "see above" "report it"
rm -rf "$whole"
pack_root
