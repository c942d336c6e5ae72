#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/java.tar: a JVM, the stores and the program.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
. ../jvm/jvm.sh
need METASCHED_CACHE
[ ! -f "$METASCHED_CACHE/java.tar" ] || exit 0
fetch_jdk
fetch_jars pom.xml
compile_java ../jvm/src src
make_runtime java.base,java.logging,java.management,jdk.httpserver,jdk.unsupported
archive_classes metasched.StoreWork "$java_work/stores" mvstore mapdb
pack_java
