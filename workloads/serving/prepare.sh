#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/root.tar: the packages of Python that the servers need, and Locust if that is to ask.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
. ../common/packages.sh
need METASCHED_CACHE METASCHED_PARAM_DRIVER
[ ! -f "$METASCHED_CACHE/root.tar" ] || exit 0
need_tool "$python" tar

log=$METASCHED_CACHE/pip.log
venv=$METASCHED_CACHE/venv
lib=$METASCHED_CACHE/root/lib
"$python" -m venv "$venv" >"$log" 2>&1 ||
    fail "make a virtual environment" "$(tail -n 2 "$log" | tr '\n' ' ')" "install python3-venv"
files=(requirements/serve.txt)
[ "$METASCHED_PARAM_DRIVER" != locust ] || files+=(requirements/locust.txt)
mkdir -p "$lib"
for file in "${files[@]}"; do
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile --upgrade \
        --only-binary :all: --target "$lib" --requirement "$file" >"$log" 2>&1 ||
        fail "install the packages of $file" "$(tail -n 3 "$log" | tr '\n' ' ')" \
            "see whether pip reaches its registry"
done
# What is not imported here.
rm -rf "${lib:?}/bin" "$lib/numpy/f2py"
find "$lib" -type d -name tests -prune -exec rm -rf {} +
find "$lib" -type f \( -name '*.pyi' -o -name '*.h' -o -name '*.a' \) -delete
"$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$lib" >"$log" 2>&1 ||
    fail "compile the modules" "$(tail -n 1 "$log")" "see whether the disk is full"
rm -rf "$venv" "$log"
pack_root
