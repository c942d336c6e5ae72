#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds scx_simple, the kernel tools' own simplest scheduler, from Debian's
# kernel source package, and prints the path of the binary.
#
# bench-cost compares our fifo policy with its FIFO mode. The result is kept in
# the cache folder, so this costs a download (165 MB, scripts/kernel-source.sh) and a minute once.
#
#   METASCHED_CACHE_ROOT  where to keep it (/var/cache/metasched)
#   BPF_CLANG             the compiler for BPF (clang-19)
#
# Needs: the package sources that scripts/install.sh adds, clang-19, bpftool,
# gcc, make, libelf-dev, zlib1g-dev.
set -euo pipefail

cache=${METASCHED_CACHE_ROOT:-/var/cache/metasched}/scx_simple
clang=${BPF_CLANG:-clang-19}
work=

fail() {
	echo "scx_simple.sh: cannot build scx_simple: $1" >&2
	exit 1
}

cleanup() {
	if [ -n "$work" ]; then
		rm -rf "$work"
	fi
}
trap cleanup EXIT

# Its version names the result.
source=$(dirname "$0")/../scripts/kernel-source.sh
version=$("$source" --version)
binary=$cache/$version/scx_simple
if [ -x "$binary" ]; then
	echo "$binary"
	exit 0
fi

for tool in "$clang" gcc make bpftool; do
	PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || fail "'$tool' is not installed; run scripts/install.sh"
done
bpftool=$(PATH=$PATH:/usr/sbin command -v bpftool)

mkdir -p "$cache"
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

echo "scx_simple.sh: building" >&2
mkdir out
make -C tree/tools/sched_ext scx_simple O="$work/out" CLANG="$clang" BPFTOOL="$bpftool" \
	VMLINUX_BTF="$work/$types" VMLINUX_H="$work/$types" >build.log 2>&1 ||
	fail "make: $(tail -n 3 build.log)"

mkdir -p "$cache/$version"
# Written beside and then renamed, so that an interrupted run leaves no half of it.
cp "$work/out/build/bin/scx_simple" "$binary.new"
mv "$binary.new" "$binary"
echo "$binary"
