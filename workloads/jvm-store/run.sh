#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# run.sh STORE...: serves measurements of these stores.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../jvm/jvm.sh
need METASCHED_RUN
serve metasched.StoreWork "$(fresh_folder stores)" "$@"
