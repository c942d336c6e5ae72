#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# load.sh live|upload: encodes the frames over and over.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
need METASCHED_RUN METASCHED_DURATION_S METASCHED_PARAM_SIZE METASCHED_PARAM_UPLOAD_PRESET
use_root
need_tool ffmpeg
case ${1:-} in
live) profile=(-preset veryfast -tune zerolatency -b:v 1500k -maxrate 1500k -bufsize 1500k -g 60) ;;
# Frames are looked at far ahead; with fewer of them the first is finished in time where the CPU is slow.
upload) profile=(-preset "$METASCHED_PARAM_UPLOAD_PRESET" -crf 18 -rc-lookahead 20) ;;
*) fail "encode '${1:-}'" "there is no such profile" "name live or upload" ;;
esac
exec "$python" encode.py ffmpeg -nostdin -nostats -v error \
    -stream_loop -1 -f rawvideo -pixel_format yuv420p -video_size "$METASCHED_PARAM_SIZE" -framerate 30 \
    -i "$METASCHED_RUN/root/frames.yuv" -c:v libx264 "${profile[@]}" \
    -flush_packets 1 -f framecrc pipe:1
