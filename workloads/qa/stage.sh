#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Unpacks the prepared file into memory, once per boot.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_CACHE
need METASCHED_RUN

packed=$(compgen -G "$METASCHED_CACHE/runtime.tar.*") ||
    fail "stage the service" "there is no runtime.tar.* in '$METASCHED_CACHE'" "prepare it first"
work=$METASCHED_RUN/unpacking
rm -rf "$work" "${METASCHED_RUN:?}/lib" "$METASCHED_RUN/store"
mkdir -p "$work"
tar -xf "$packed" -C "$work" ||
    fail "unpack '$packed' into '$METASCHED_RUN'" "tar failed" \
        "see whether 200 MB of memory are free, or prepare anew"
[ "$(cat "$work/lib/python-version")" = "$("$python" -V)" ] ||
    fail "use '$packed'" "it was made for $(cat "$work/lib/python-version"), and here is $("$python" -V)" \
        "remove it and prepare anew"
mv "$work/store" "$work/lib" "$METASCHED_RUN"
rmdir "$work"
