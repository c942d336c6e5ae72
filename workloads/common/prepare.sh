#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# prepare.sh PACKAGE...: fetches and packs Debian packages, for workloads that need no more.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$here/common.sh"
# shellcheck source=packages.sh
. "$here/packages.sh"
need METASCHED_CACHE
[ ! -f "$METASCHED_CACHE/root.tar" ] || exit 0
fetch_packages "$@"
pack_root
