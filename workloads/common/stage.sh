#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Unpacks what prepare.sh packed, for workloads that need no more.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$here/common.sh"
# shellcheck source=packages.sh
. "$here/packages.sh"
need METASCHED_CACHE METASCHED_RUN
stage_root
