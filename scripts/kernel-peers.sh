#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds schedulers of the kernel's own tools/sched_ext from Debian's kernel source package, and
# prints the folder that they are in.
#
#   benches/kernel_peers.sh NAME ...     such as scx_simple scx_central
#
# What policies of ours were made after is measured beside them. The result is kept in the cache
# folder, so this costs a download (165 MB, scripts/kernel-source.sh) and a minute once. One that
# does not build is said, and the others are there; the exit status is 1 if none is.
#
#   METASCHED_CACHE_ROOT  where to keep it (/var/cache/metasched)
#   BPF_CLANG             the compiler for BPF (clang-19)
#
# Needs: the package sources that scripts/deps.sh adds, clang-19, bpftool,
# gcc, make, libelf-dev, zlib1g-dev.
set -euo pipefail

cache=${METASCHED_CACHE_ROOT:-/var/cache/metasched}/kernel-peers
clang=${BPF_CLANG:-clang-19}
work=

say() { echo "kernel_peers.sh: $*" >&2; }
fail() {
	say "cannot build ${peers[*]}: $1"
	exit 1
}

trap 'rm -rf "$work"' EXIT

peers=("$@")
[ "${#peers[@]}" -gt 0 ] || { sed -n '3,18s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# Its version names the result.
source=$(dirname "$0")/../scripts/kernel-source.sh
version=$("$source" --version)
there=$cache/$version
missing=()
for peer in "${peers[@]}"; do
	[ -x "$there/$peer" ] || missing+=("$peer")
done
if [ "${#missing[@]}" = 0 ]; then
	echo "$there"
	exit 0
fi

for tool in "$clang" gcc make bpftool; do
	PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || fail "'$tool' is not installed; run scripts/deps.sh"
done
bpftool=$(PATH=$PATH:/usr/sbin command -v bpftool)

mkdir -p "$there"
work=$(mktemp -d "$cache/build.XXXXXX")
"$source" "$work/tree" tools/sched_ext tools/build tools/scripts tools/include tools/lib \
	tools/arch/x86/include scripts/bpf_doc.py include/uapi/linux
cd "$work"
# The types of a kernel for BPF: any of 7.x will do, fields are relocated on loading.
apt-get download -q linux-bpf-dev >download.log 2>&1 ||
	fail "apt-get download: $(tail -n 1 download.log)"
dpkg-deb -x linux-bpf-dev_*.deb types
types=$(find types -name vmlinux.h | head -n 1)
[ -n "$types" ] || fail "linux-bpf-dev holds no vmlinux.h"

mkdir out
for peer in "${missing[@]}"; do
	say "building $peer"
	if make -C tree/tools/sched_ext "$peer" O="$work/out" CLANG="$clang" BPFTOOL="$bpftool" \
		VMLINUX_BTF="$work/$types" VMLINUX_H="$work/$types" >"$peer.log" 2>&1; then
		# Written beside and then renamed, so that an interrupted run leaves no half of it.
		cp "out/build/bin/$peer" "$there/$peer.new"
		mv "$there/$peer.new" "$there/$peer"
	else
		say "$peer does not build: $(tail -n 3 "$peer.log")"
	fi
done
for peer in "${peers[@]}"; do
	if [ -x "$there/$peer" ]; then
		echo "$there"
		exit 0
	fi
done
fail "none of them builds"
