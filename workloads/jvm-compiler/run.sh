#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Serves measurements of the compiler.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../jvm/jvm.sh
# Of the JDK's own compiler.
java_options=(--add-exports=jdk.compiler/com.sun.tools.javac.api=ALL-UNNAMED)
need METASCHED_RUN
serve metasched.CompilerWork "$(fresh_folder compiled)" jars
