#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/java.tar, a whole JVM, if the suite's file is there.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
. ../jvm/jvm.sh
need METASCHED_CACHE
[ -n "${METASCHED_PARAM_JAR:-}" ] ||
    fail "prepare Renaissance" "it is in no archive that could be reached from here" \
        "download its jar from renaissance.dev and give it with --set jar=/PATH/OF/IT"
[[ $METASCHED_PARAM_JAR == /* ]] ||
    fail "use the jar '$METASCHED_PARAM_JAR'" "that is not an absolute path" \
        "give it with --set jar=/PATH/OF/IT"
[ "$(head -c 2 "$METASCHED_PARAM_JAR" 2>/dev/null)" = PK ] ||
    fail "use the jar '$METASCHED_PARAM_JAR'" "it is not there, or is no jar" \
        "download it from renaissance.dev and give it with --set jar=/PATH/OF/IT"
[ ! -f "$METASCHED_CACHE/java.tar" ] || exit 0
fetch_jdk
make_runtime ALL-MODULE-PATH
pack_java
