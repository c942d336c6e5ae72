#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Debian's newest source package of a kernel with sched_ext: what is built from the kernel's
# own tools and tests takes it from here. A download that was interrupted goes on where it
# was, and the package is kept until a newer one comes.
#
#   scripts/kernel-source.sh --version       prints the version, such as 7.3.4-1~bpo13+1
#   scripts/kernel-source.sh FOLDER PATH...  unpacks these parts of the tree into FOLDER
#
# The exit status is 0, 1 if it cannot be fetched, 2 for wrong use, 4 if something is missing.
#
# Environment: METASCHED_CACHE_ROOT  the cache (default /var/cache/metasched)
set -u -o pipefail
export LC_ALL=C

readonly CACHE=${METASCHED_CACHE_ROOT:-/var/cache/metasched}/kernel-source

say() { echo "kernel-source: $*" >&2; }
die() { # STATUS MESSAGE
	say "$2"
	exit "$1"
}

[ $# -gt 1 ] || [ "$*" = --version ] || { sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for tool in apt-cache curl dpkg-deb xz; do
	command -v "$tool" >/dev/null || die 4 "cannot fetch the kernel's source: there is no $tool; run scripts/deps.sh"
done

find_package() {
	package=$(apt-cache search --names-only '^linux-source-7\.[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
	[ -n "$package" ] ||
		die 4 "cannot fetch the kernel's source: there is no package linux-source-7.*; run scripts/deps.sh, which adds Debian's backports"
	version=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
}

# Leaves the package at $deb. apt itself begins anew where a download was interrupted, so it
# only says where the package is, and by which sum it is known.
fetch() {
	local uri file size sum proxy=
	# It says nothing in a folder that has the package already.
	read -r uri file size sum < <(cd / && apt-get download --print-uris "$package=$version" 2>/dev/null)
	[ -n "${sum:-}" ] || return 1
	uri=${uri//\'/}
	deb=$CACHE/$file
	is_whole() { echo "${sum#SHA256:}  $1" | sha256sum --check --status 2>/dev/null; }
	[ ! -e "$deb" ] || return 0
	mkdir -p "$CACHE" || return 1
	# One at a time: what two append to is nobody's.
	exec 9>"$CACHE/.lock"
	flock 9
	[ ! -e "$deb" ] || return 0
	# Parts and packages of other versions serve nobody.
	find "$CACHE" -name 'linux-source-*' ! -name "$file.part" -delete
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	say "fetching $package $version ($((size / 1000000)) MB)"
	if ! is_whole "$deb.part"; then
		curl --fail --location --silent --show-error --retry 5 --continue-at - \
			${proxy:+--proxy "$proxy"} --output "$deb.part" "$uri" >&2
	fi
	if is_whole "$deb.part"; then
		mv "$deb.part" "$deb"
		return
	fi
	# As long as it should be and yet another file: not one to go on with.
	[ "$(stat -c %s "$deb.part" 2>/dev/null || echo 0)" -lt "$size" ] || rm -f "$deb.part"
	return 1
}

find_package
if [ "$1" = --version ]; then
	echo "$version"
	exit 0
fi
folder=$1
shift
if ! fetch; then
	# The archive drops old packages when new ones come.
	say "it is not there as the package lists say: refreshing them"
	apt-get update -q >&2 || die 1 "cannot refresh the package lists"
	find_package
	fetch || die 1 "cannot fetch $package $version; what has arrived is kept, and the same command goes on from there"
fi
say "unpacking $*"
{
	mkdir -p "$folder" &&
		dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards "*/$package.tar.xz" |
		tar -xJ -C "$folder" --strip-components=1 "${@/#/$package/}"
} || die 1 "cannot unpack $* from $deb"
