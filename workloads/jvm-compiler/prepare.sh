#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/java.tar: a JVM, the compilers and the program.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
. ../jvm/jvm.sh
# Of the JDK's own compiler.
java_options=(--add-exports=jdk.compiler/com.sun.tools.javac.api=ALL-UNNAMED)
need METASCHED_CACHE
[ ! -f "$METASCHED_CACHE/java.tar" ] || exit 0
fetch_jdk
fetch_jars pom.xml
compile_java ../jvm/src src
make_runtime java.base,java.compiler,java.logging,jdk.compiler,jdk.httpserver,jdk.unsupported,jdk.zipfs
archive_classes metasched.CompilerWork "$java_work/trial" jars
pack_java
