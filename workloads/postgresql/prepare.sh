#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/root.tar, the packages, and cluster.tar, a database that is filled: to
# make one takes 20 s where the CPU is emulated.
set -euo pipefail
cd "$(dirname "$0")"
. ./common.sh
. ../common/packages.sh
need METASCHED_CACHE
need_count scale
cluster=$METASCHED_CACHE/cluster.tar
[ ! -f "$cluster" ] || exit 0
fetch_packages "postgresql-$version" "postgresql-client-$version"
# Used by compiling of queries alone, which is off.
rm -rf "$METASCHED_CACHE/root/usr/lib/postgresql/$version/lib/bitcode"

# Not in the cache: a user without rights may have no way to it.
work=$(mktemp -d "${TMPDIR:-/tmp}/metasched-postgresql.XXXXXX")
pid=
# Stops the server and removes the folder.
tidy() {
    [ -z "$pid" ] || kill -INT "$pid" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap tidy EXIT
chmod 755 "$work"
cp -r "$METASCHED_CACHE/root" "$work/root" ||
    fail "copy PostgreSQL to '$work'" "see above" "see whether the disk is full"
use_postgresql "$work/root"
need_tool initdb postgres pg_resetwal pgbench pg_isready
mkdir "$work/home"
[ "$(id -u)" != 0 ] || chown 65534:65534 "$work/home"
data=$work/home/data
log=$work/log
export PGHOST=$work/home

(cd "$work" && as_nobody initdb --no-sync --pgdata "$data" --username "$PGUSER" --auth trust \
    --encoding UTF8 --no-locale) >"$log" 2>&1 ||
    fail "make a database" "$(tail -n 1 "$log")" "see whether '$work' has room"
# All is in memory, so pages need not be flushed in the background, nor files of the log be filled
# in advance. Queries are too short to be compiled.
cat >>"$data/postgresql.conf" <<CONF
listen_addresses = ''
timezone = 'GMT'
log_timezone = 'GMT'
max_connections = 200
jit = off
min_wal_size = 32MB
max_wal_size = 512MB
wal_init_zero = off
backend_flush_after = 0
bgwriter_flush_after = 0
checkpoint_flush_after = 0
CONF
(cd "$work" && as_nobody postgres -D "$data" -k "$PGHOST") >"$log" 2>&1 &
pid=$!
for ((i = 0; i < 300; i++)); do
    ! pg_isready --quiet || break
    kill -0 "$pid" 2>/dev/null ||
        fail "start the database" "$(tail -n 1 "$log")" "correct that and prepare again"
    sleep 0.1
done
pgbench --initialize --quiet --scale "$METASCHED_PARAM_SCALE" >"$log.pgbench" 2>&1 ||
    fail "fill the database" "$(tail -n 1 "$log.pgbench")" "see whether '$work' has room"
kill -INT "$pid"
wait "$pid" || fail "stop the database" "$(tail -n 1 "$log")" "prepare again"
pid=
# Without the log of the filling, which would be unpacked at each start.
(cd "$work" && as_nobody pg_resetwal --pgdata "$data") >"$log" 2>&1 ||
    fail "shorten the database's log" "$(tail -n 1 "$log")" "prepare again"
tar -C "$work/home" -cf "$cluster.part" data ||
    fail "write '$cluster'" "see above" "see whether the disk is full"
pack_root
mv "$cluster.part" "$cluster"
