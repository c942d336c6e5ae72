#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the published schedulers that metasched is compared with, from the
# crate registry, into the cache where `metasched list` looks for them.
#
#   scripts/peers.sh [NAME ...]      default: scx_bpfland scx_rusty scx_rustland scx_lavd
#
# What is already there is skipped. One that does not build is reported, and
# the others go on; the exit status is 1 only when nothing at all is there.
#
# Environment: METASCHED_CACHE_ROOT  the cache       (default /var/cache/metasched, or
#                                    ${XDG_CACHE_HOME:-~/.cache}/metasched without root)
#              BPF_CLANG             clang for BPF   (default clang-19, else clang)
#              PEERS_JOBS            parallel compiler jobs (default: all CPUs)
#
# Debian packages that the builds need: build-essential pkg-config clang-19
# libelf-dev zlib1g-dev libseccomp-dev (scx_rustland).
set -u -o pipefail

if [ -n "${METASCHED_CACHE_ROOT:-}" ]; then
	cache=$METASCHED_CACHE_ROOT
elif [ "$(id -u)" = 0 ]; then
	cache=/var/cache/metasched
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/metasched
fi
root=$cache/peers
jobs=${PEERS_JOBS:-$(nproc)}
if [ $# -gt 0 ]; then
	peers=("$@")
else
	peers=(scx_bpfland scx_rusty scx_rustland scx_lavd)
fi

if [ -z "${BPF_CLANG:-}" ]; then
	BPF_CLANG=$(command -v clang-19 || command -v clang) || {
		echo "peers: cannot build schedulers: there is no clang; install clang-19 (make deps does)" >&2
		exit 4
	}
fi
export BPF_CLANG
if ! command -v cargo >/dev/null; then
	echo "peers: cannot build schedulers: there is no cargo; install Rust from https://rustup.rs" >&2
	exit 4
fi
mkdir -p "$root/bin" "$root/logs" || {
	echo "peers: cannot write $root; set METASCHED_CACHE_ROOT to a folder that you may write" >&2
	exit 1
}

# Two builds at a time would write the same target folder.
exec 9>"$root/lock"
if ! flock -n 9; then
	echo "peers: waiting for another build in $root" >&2
	flock 9
fi

failed=()
n=0
for peer in "${peers[@]}"; do
	n=$((n + 1))
	if [ -x "$root/bin/$peer" ]; then
		echo "peers: $n/${#peers[@]} $peer: already there"
		continue
	fi
	echo "peers: $n/${#peers[@]} $peer: building (half a minute to some minutes; log: $root/logs/$peer.log)"
	began=$SECONDS
	if CARGO_TARGET_DIR=$root/target cargo install --locked --jobs "$jobs" \
		--root "$root" "$peer" >"$root/logs/$peer.log" 2>&1 9>&-; then
		echo "peers: $n/${#peers[@]} $peer: built in $((SECONDS - began)) s"
	else
		failed+=("$peer")
		echo "peers: $n/${#peers[@]} $peer: did not build; the end of its log:" >&2
		# A linker's command line can fill screens, and says nothing.
		tail -n 20 "$root/logs/$peer.log" | cut -c 1-240 | sed 's/^/    /' >&2
	fi
done

there=0
for peer in "${peers[@]}"; do
	[ -x "$root/bin/$peer" ] && there=$((there + 1))
done
# The intermediate files are large and serve no one once all binaries are there.
if [ "${#failed[@]}" -eq 0 ]; then
	rm -rf "$root/target"
else
	echo "peers: ${#failed[@]} did not build: ${failed[*]}; the rest can be used, and the same command tries again" >&2
fi
echo "peers: $there of ${#peers[@]} in $root/bin"
[ "$there" -gt 0 ]
