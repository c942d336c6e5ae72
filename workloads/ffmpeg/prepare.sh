#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/root.tar: ffmpeg, the libraries that it needs, and the raw frames.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
need METASCHED_CACHE METASCHED_PARAM_SIZE
[ ! -f "$METASCHED_CACHE/root.tar" ] || exit 0
[[ $METASCHED_PARAM_SIZE =~ ^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$ ]] ||
    fail "make frames of the size '$METASCHED_PARAM_SIZE'" "that is not WIDTHxHEIGHT" \
        "give another, such as --set size=640x480"

log=$METASCHED_CACHE/ffmpeg.log
fetch_packages ffmpeg
whole=$METASCHED_CACHE/whole
mv "$METASCHED_CACHE/root" "$whole"
# Some libraries lie in folders of their own, which those that use them know by absolute paths.
folders=$(find "$whole" -name '*.so*' -printf '%h\n' | sort -u | paste -s -d :)
# Of all libraries only those that the program is linked with.
mkdir -p "$METASCHED_CACHE/root/usr/"{bin,lib/x86_64-linux-gnu}
cp "$whole/usr/bin/ffmpeg" "$METASCHED_CACHE/root/usr/bin"
LD_LIBRARY_PATH=$folders ldd "$whole/usr/bin/ffmpeg" >"$log" 2>&1 ||
    fail "find the libraries of ffmpeg" "$(tail -n 1 "$log")" "report it"
! grep -F 'not found' "$log" >&2 ||
    fail "find the libraries of ffmpeg" "see above" "run apt-get update, and prepare again"
awk -v whole="$whole/" 'index($3, whole) == 1 { print $3 }' "$log" |
    xargs cp -L -t "$METASCHED_CACHE/root/usr/lib/x86_64-linux-gnu"
rm -rf "$whole"

# Two seconds of sharp edges that move, and two of fine detail that grows.
(
    use_root_at "$METASCHED_CACHE/root"
    ffmpeg -nostdin -v error -f lavfi -i "testsrc2=size=$METASCHED_PARAM_SIZE:rate=30:duration=2" \
        -f lavfi -i "mandelbrot=size=$METASCHED_PARAM_SIZE:rate=30,trim=duration=2" \
        -filter_complex '[0]format=yuv420p[a];[1]format=yuv420p[b];[a][b]concat' \
        -f rawvideo "$METASCHED_CACHE/root/frames.yuv"
) >"$log" 2>&1 ||
    fail "make frames" "$(tail -n 1 "$log")" "see whether the disk is full, or give another --set size=WxH"
rm -f "$log"
pack_root
