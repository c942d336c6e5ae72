# SPDX-License-Identifier: GPL-2.0-only
# Sourced by scripts that prepare and stage Debian packages, after common.sh.
#
# Packages are unpacked, never installed: no script of theirs runs, and the system stays
# as it is. What their installation would do beyond files (users, links of alternatives,
# data folders) has to be done by the workload.

# fetch_packages NAME...: unpacks the packages into $METASCHED_CACHE/root, with those of
# their dependencies that are not installed here. The versions go to root/packages.
fetch_packages() {
    local root=$METASCHED_CACHE/root debs=$METASCHED_CACHE/debs log=$METASCHED_CACHE/apt.log
    local tool name names archive
    for tool in apt-get dpkg-deb tar; do
        command -v "$tool" >/dev/null ||
            fail "fetch packages" "there is no '$tool'" "use a system with Debian's apt"
    done
    for name in "$@"; do
        [[ $name =~ ^[a-z0-9][a-z0-9.+-]+$ ]] ||
            fail "fetch '$name'" "that is not a package's name" "correct the workload's manifest"
    done
    mkdir -p "$root" "$debs"
    LC_ALL=C apt-get -s -o Debug::NoLocking=1 --no-install-recommends install "$@" >"$log" 2>&1 ||
        fail "find the packages $*" "$(grep -m1 '^E:' "$log" || tail -n 1 "$log")" \
            "run apt-get update, and see whether they are for this release"
    # The C library stays the system's: its loader is not taken from a folder of libraries.
    # Headers are not needed to run anything.
    mapfile -t names < <({
        printf '%s\n' "$@"
        awk '/^Inst / && $2 !~ /^libc(6|-bin)$/ && $2 !~ /-dev$/ { print $2 }' "$log"
    } | sort -u)
    (cd "$debs" && apt-get -qq -o APT::Sandbox::User=root download "${names[@]}") >"$log" 2>&1 ||
        fail "download the packages ${names[*]}" "$(grep -m1 '^E:' "$log" || tail -n 1 "$log")" \
            "see whether Debian's archive is reached and the disk has room, or run apt-get update"
    for archive in "$debs"/*.deb; do
        dpkg-deb -x "$archive" "$root" >"$log" 2>&1 ||
            fail "unpack '$(basename "$archive")'" "$(tail -n 1 "$log")" "see whether the disk is full"
    done
    (cd "$debs" && printf '%s\n' *.deb) >"$root/packages"
    rm -rf "$debs" "$log"
    (cd "$root/usr/share" && rm -rf doc man info locale lintian bash-completion bug) 2>/dev/null || true
}

# pack_root: makes one file of $METASCHED_CACHE/root, since a guest reads the cache through
# a file system on which many small files are slow.
pack_root() {
    { tar -C "$METASCHED_CACHE" -cf "$METASCHED_CACHE/root.tar.part" root &&
        mv "$METASCHED_CACHE/root.tar.part" "$METASCHED_CACHE/root.tar"; } ||
        fail "write '$METASCHED_CACHE/root.tar'" "see above" "see whether the disk is full"
    rm -rf "$METASCHED_CACHE/root"
}

# stage_root: unpacks what pack_root made into $METASCHED_RUN/root.
stage_root() {
    local packed=$METASCHED_CACHE/root.tar
    [ -f "$packed" ] || fail "stage the workload" "there is no '$packed'" "prepare it first"
    rm -rf "${METASCHED_RUN:?}/root"
    mkdir -p "$METASCHED_RUN"
    tar -C "$METASCHED_RUN" -xf "$packed" ||
        fail "unpack '$packed' into '$METASCHED_RUN'" "see above" \
            "see whether there is memory for $(du -h "$packed" | cut -f1), or prepare anew"
}
