#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes $METASCHED_CACHE/root.tar: a compiler, make, the headers and the sources of Lua.
set -euo pipefail
cd "$(dirname "$0")"
. ../common/common.sh
. ../common/packages.sh
need METASCHED_CACHE METASCHED_PARAM_COMPILER
[ ! -f "$METASCHED_CACHE/root.tar" ] || exit 0

# compiler_packages: the compiler and what it needs, installed here or not: all of it is to lie in
# memory. Not the C library itself, and nothing of what every system has.
compiler_packages() {
    local gcc
    printf '%s\n' make libc6-dev linux-libc-dev
    if [ "$METASCHED_PARAM_COMPILER" = tcc ]; then
        echo tcc
        return
    fi
    gcc=$(apt-cache depends gcc | awk '$1 == "Depends:" && $2 ~ /^gcc-[0-9]+$/ && !found { found = $2 }
        END { print found }')
    [ -n "$gcc" ] || fail "find the compiler" "apt knows no package that gcc depends on" "run apt-get update"
    apt-cache depends --recurse --important "$gcc" | grep -E '^[a-z]' |
        grep -vE '^(libc6|libgcc-s1|lib(asan|lsan|tsan|ubsan|itm|atomic|quadmath|gomp|cc1|stdc).*|perl.*)$'
}

# fetch_source PACKAGE: unpacks its upstream sources into $METASCHED_CACHE/root/source. The lists of
# sources are made of the system's own, in a folder of ours.
fetch_source() {
    local work=$METASCHED_CACHE/work log=$METASCHED_CACHE/apt.log archive release options
    rm -rf "$work" && mkdir -p "$work"/{lists/partial,etc,source}
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt-get indextargets --format "deb-src \$(REPO_URI) \$(RELEASE) main" 'Created-By: Packages' \
        'Origin: Debian' 'Component: main' "Codename: $release" | sort -u >"$work/etc/sources.list"
    options=(-o Dir::Etc::sourcelist="$work/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::trustedparts=/usr/share/keyrings -o Dir::State::lists="$work/lists"
        -o Dir::Cache="$work" -o APT::Sandbox::User=root)
    { apt-get -q "${options[@]}" update &&
        cd "$work/source" && apt-get -q "${options[@]}" source --download-only "$1"; } >"$log" 2>&1 ||
        fail "download the sources of '$1'" "$(grep -m1 -E '^[EW]:' "$log" || tail -n 1 "$log")" \
            "see whether Debian's archive is reached"
    rm -f "$work"/source/*.asc
    archive=$(compgen -G "$work/source/*.orig.tar.*") ||
        fail "use the sources of '$1'" "there is no .orig.tar in them" "report it"
    mkdir -p "$METASCHED_CACHE/root/source"
    tar -C "$METASCHED_CACHE/root/source" --strip-components=1 -xf "$archive" ||
        fail "unpack '$archive'" "see above" "see whether the disk is full"
    rm -rf "$work" "$log"
}

packages=$(compiler_packages)
mapfile -t packages <<<"$packages"
fetch_packages "${packages[@]}"
(fetch_source lua5.4)
# The name without a version is a package of its own.
if compiler=$(compgen -G "$METASCHED_CACHE/root/usr/bin/gcc-[0-9]*"); then
    ln -s "$(basename "$compiler")" "$METASCHED_CACHE/root/usr/bin/gcc"
fi
# What is not needed to compile C.
(
    cd "$METASCHED_CACHE/root/usr"
    find lib \( -name lto1 -o -name lto-wrapper -o -name '*.a' -o -name gprofng \) -exec rm -rf {} +
    rm -rf bin/*lto-dump* bin/*gold bin/*dwp bin/perf libexec/perf-core lib/perf-core ../source/doc
)
pack_root
