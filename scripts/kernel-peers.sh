#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds schedulers of the kernel's own tools/sched_ext from Debian's kernel source package, and
# prints the folder that they are in.
#
#   scripts/kernel-peers.sh NAME ...     such as scx_simple scx_central
#
# Guest tests change to one of them and back, and benches measure what policies of ours were made
# after. They are kept in the cache, so this costs a download (168 MB, scripts/kernel-source.sh) and
# a minute of CPU time once for each version of the package. One that does not build is said, and
# the others are there; where nothing can be fetched those of an older version are taken.
#
# The exit status is 0, 1 if none of them is there, 2 for wrong use, 4 if something is missing.
#
# Environment: METASCHED_CACHE_ROOT  the cache (default /var/cache/metasched)
#              BPF_CLANG             the compiler for BPF (default clang-19)
set -u -o pipefail

readonly CACHE=${METASCHED_CACHE_ROOT:-/var/cache/metasched}/kernel-peers
readonly CLANG=${BPF_CLANG:-clang-19}
readonly SOURCE=${0%/*}/kernel-source.sh

say() { echo "kernel-peers: $*" >&2; }
die() { # STATUS MESSAGE
	say "cannot build ${peers[*]}: $2"
	exit "$1"
}

# Prints the folder if one of the schedulers is there; all of them with `all`.
found() { # FOLDER [all]
	local peer there=0
	for peer in "${peers[@]}"; do
		[ ! -x "$1/$peer" ] || there=$((there + 1))
	done
	[ "$there" -ge "$([ "${2:-}" = all ] && echo ${#peers[@]} || echo 1)" ] && echo "$1"
}

# What is needed of the kernel's tree, and the types of a kernel for BPF: any of 7.x will do, since
# fields are relocated as a program is loaded.
fetch() { # FOLDER
	"$SOURCE" "$1/tree" tools/sched_ext tools/build tools/scripts tools/include tools/lib \
		tools/arch/x86/include scripts/bpf_doc.py include/uapi/linux || return 1
	(cd "$1" && apt-get download -q linux-bpf-dev >download.log 2>&1 &&
		dpkg-deb -x linux-bpf-dev_*.deb types 2>>download.log) ||
		{ say "cannot fetch linux-bpf-dev: $(tail -n 1 "$1/download.log")"; return 1; }
	types=$(find "$1/types" -name vmlinux.h | head -n 1)
	[ -n "$types" ] || { say "linux-bpf-dev holds no vmlinux.h"; return 1; }
}

build() { # FOLDER INTO
	local peer
	mkdir -p "$1/out" "$2" || return 1
	for peer in "${peers[@]}"; do
		[ ! -x "$2/$peer" ] || continue
		say "building $peer"
		if make -C "$1/tree/tools/sched_ext" "$peer" O="$1/out" CLANG="$CLANG" BPFTOOL="$bpftool" \
			VMLINUX_BTF="$types" VMLINUX_H="$types" >"$1/$peer.log" 2>&1; then
			# Beside its place first, so that an interrupted run leaves no half of it.
			cp "$1/out/build/bin/$peer" "$2/$peer.new" && mv "$2/$peer.new" "$2/$peer"
		else
			say "$peer does not build: $(tail -n 3 "$1/$peer.log")"
		fi
	done
}

peers=("$@")
[ $# -gt 0 ] || { sed -n '3,18s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$("$SOURCE" --version) || version=
if [ -n "$version" ]; then
	! found "$CACHE/$version" all || exit 0
	PATH=$PATH:/usr/sbin
	for tool in "$CLANG" gcc make bpftool; do
		command -v "$tool" >/dev/null || die 4 "there is no $tool; run scripts/deps.sh"
	done
	bpftool=$(command -v bpftool)
	{ mkdir -p "$CACHE" && work=$(mktemp -d "$CACHE/build.XXXXXX"); } ||
		die 1 "cannot write $CACHE; set METASCHED_CACHE_ROOT to a folder that you may write"
	trap 'rm -rf "$work"' EXIT
	if fetch "$work"; then
		build "$work" "$CACHE/$version"
		found "$CACHE/$version" || die 1 "none of them builds"
		exit 0
	fi
fi
while read -r older; do
	! found "$older" || { say "taking what was built before, in $older"; exit 0; }
done < <(find "$CACHE" -mindepth 1 -maxdepth 1 ! -name 'build.*' 2>/dev/null | sort -rV)
die 1 "the source cannot be fetched, and none of them was built before"
