#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# run.sh MODULE ARGUMENT...: runs a module of the service on what was staged.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
need METASCHED_RUN
lib=$METASCHED_RUN/lib
[ -d "$lib" ] || fail "start '$1'" "'$lib' is not there" "stage the workload first"
export PYTHONPATH=$lib/std:$lib/std/lib-dynload:$lib/app:$lib/site
exec "$python" -P -S -m "qa.$1" "${@:2}"
