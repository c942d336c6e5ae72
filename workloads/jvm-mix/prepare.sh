#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/java.tar: a JVM and the program.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
. ../jvm/jvm.sh
need METASCHED_CACHE
[ ! -f "$METASCHED_CACHE/java.tar" ] || exit 0
fetch_jdk
compile_java ../jvm/src src
make_runtime java.base,jdk.httpserver
archive_classes metasched.Mix page-rank
pack_java
