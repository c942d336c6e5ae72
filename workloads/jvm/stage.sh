#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Unpacks the JVM and what it runs into memory, once per boot.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=../common/common.sh
. "$here/../common/common.sh"
# shellcheck source=jvm.sh
. "$here/jvm.sh"
need METASCHED_CACHE METASCHED_RUN
stage_java
