#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# run.sh WORK: serves measurements of it.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../jvm/jvm.sh
need METASCHED_RUN
serve metasched.Mix "$1"
