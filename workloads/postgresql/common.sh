# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the other scripts of this folder.

# shellcheck disable=SC1091
. ../common/common.sh

version=15
# The name of the database and of its user.
export PGDATABASE=postgres PGUSER=postgres

# use_postgresql ROOT: PostgreSQL's programs of the unpacked packages come first.
use_postgresql() {
    use_root_at "$1"
    PATH=$1/usr/lib/postgresql/$version/bin:$PATH
}
