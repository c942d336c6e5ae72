#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes sure that what metasched is built, tested and measured with is there.
#
#   scripts/install.sh            installs what is missing; quick when nothing is
#   scripts/install.sh --check    only says what is missing (exit status 4)
#
# Nothing is upgraded and nothing is removed: the package manager is asked what it
# would do, and is not let do it otherwise. Everything is said before it is done, and
# what was added is recorded in /var/lib/metasched, for scripts/uninstall.sh.
#
# Environment: METASCHED_DEBIAN_MIRROR   where Debian's archive is
#                                        (default: where this machine already takes it from)
#              METASCHED_SECURITY_MIRROR where its security archive is (likewise)
set -u -o pipefail

readonly STATE=/var/lib/metasched
readonly SOURCES=/etc/apt/sources.list.d/metasched.sources
readonly PINS=/etc/apt/preferences.d/metasched.pref

. "$(dirname "$0")/archive.sh" || exit 1
readonly EXPIRED="Check-Valid-Until: no"
# Edition 2024 and the dependencies in Cargo.lock need it.
readonly RUST_MINOR=91
# smp-cache, and the fixes of emulated static branches, came with 9 and 10.
readonly QEMU_MAJOR=9

PATH=$PATH:/usr/sbin:/sbin
missing=()      # packages, with /SUITE where one is meant
purposes=()     # what each of them is for

say() { echo "install: $*"; }
die() { # STATUS MESSAGE
	echo "install: $2" >&2
	exit "$1"
}

# need PACKAGE PURPOSE COMMAND...: the package is missing if the command fails.
need() {
	local package=$1 purpose=$2
	shift 2
	if ! "$@" >/dev/null 2>&1; then
		missing+=("$package")
		purposes+=("$purpose")
	fi
}

has() { command -v "$1"; }

rust_is_new_enough() {
	local version
	version=$(cargo --version) || return 1
	version=${version#cargo 1.}
	[ "${version%%.*}" -ge "$RUST_MINOR" ]
}

qemu_is_new_enough() {
	local version
	version=$(qemu-system-x86_64 --version) || return 1
	version=${version#QEMU emulator version }
	[ "${version%%.*}" -ge "$QEMU_MAJOR" ]
}

codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
# bookworm's own QEMU, bpftool and Rust are too old; later releases' are not.
newer= newer_rust=
if [ "$codename" = bookworm ]; then
	newer=/bookworm-backports
	newer_rust=/bookworm-security
fi

find_missing() {
	missing=() purposes=()
	need ca-certificates "checks the certificates of package registries" test -e /etc/ssl/certs/ca-certificates.crt
	need gcc "compiles C" has cc
	need libc6-dev "C headers" test -e /usr/include/stdio.h
	need pkg-config "finds libraries" has pkg-config
	need clang-19 "compiles BPF, and its libclang reads what user space shares with it" has clang-19
	need libelf-dev "libbpf is built on it" test -e /usr/include/libelf.h
	need zlib1g-dev "libbpf is built on it" test -e /usr/include/zlib.h
	need libseccomp-dev "the published scheduler scx_rustland is built on it" test -e /usr/include/seccomp.h
	if ! rust_is_new_enough >/dev/null 2>&1; then
		need "cargo-web$newer_rust" "builds Rust (a cargo from 1.$RUST_MINOR on is not on PATH)" false
		need "rustc-web$newer_rust" "compiles Rust" false
		need "libstd-rust-web-dev$newer_rust" "Rust's library" false
		need "rustfmt-web$newer_rust" "checks the formatting of Rust" false
	fi
	# With what it needs of its own version: apt takes a dependency from another suite
	# only where it is named.
	local qemu
	for qemu in qemu-system-x86 qemu-system-common qemu-system-data seabios; do
		need "$qemu$newer" "boots a kernel with sched_ext" qemu_is_new_enough
	done
	need busybox-static "the guest's first commands" has busybox
	need kmod "lists what kernel modules need" has depmod
	need "bpftool$newer" "builds the schedulers of the kernel's tools, which policies are compared with" has bpftool
	need make "builds these, and the kernel's own test of cgroups" has make
	need curl "fetches the kernel's source, and goes on where that was interrupted" has curl
	need xz-utils "unpacks the kernel's source" has xz
	need redis-tools "the service beside a neighbour, and its clients" has redis-benchmark
	need wrk "loads the question-answering application" has wrk
	need rt-tests "hackbench" has hackbench
	need sysbench "threads that lock, and that compute" has sysbench
	need stress-ng "changes affinities while lanes change" has stress-ng
	need linux-perf "perf bench sched pipe" has perf
	need python3-venv "the question-answering application" /usr/bin/python3 -c 'import ensurepip, venv'
}

suite_is_known() { # whether apt knows the suite from a source that is not ours
	local list
	list=$(grep -l -r -s -E "^[^#]*\b$1\b" /etc/apt/sources.list /etc/apt/sources.list.d | grep -v -x -F "$SOURCES")
	[ -n "$list" ]
}

# Adds the suites that hold newer tools and the kernels with sched_ext, pinned below 100,
# so that apt takes nothing from them that is not asked for by suite.
add_sources() {
	[ -n "$codename" ] && has apt-get >/dev/null || return 0
	local suites=() suite
	for suite in bookworm-backports trixie-backports sid; do
		# bookworm's backports are of no use to, and may not be installed on, another release.
		if [ "$suite" = bookworm-backports ] && [ "$codename" != bookworm ]; then continue; fi
		suite_is_known "$suite" || suites+=("$suite")
	done
	[ "${#suites[@]}" -gt 0 ] || return 0
	local pins=
	for suite in "${suites[@]}"; do
		pins+="# Added by metasched: below 100, so that nothing is upgraded from $suite.
Package: *
Pin: release n=$suite
Pin-Priority: 50

"
	done
	pins=${pins%$'\n\n'}
	local there
	there=$(cat "$SOURCES" 2>/dev/null)
	if [ "$(cat "$PINS" 2>/dev/null)" = "$pins" ]; then
		case $there in
			"$(sources_text "$MIRROR" "${suites[*]}")") return 0 ;;
			"$(sources_text "$MIRROR" "${suites[*]}" "$EXPIRED")") return 0 ;;
		esac
	fi
	if [ "$(id -u)" != 0 ]; then
		say "without root the package sources for kernels (${suites[*]}) are not added; 'sudo make install' adds them"
		return 0
	fi
	[ -n "$MIRROR" ] || die 4 "cannot add the package sources ${suites[*]}: this machine's own sources name no Debian archive; set METASCHED_DEBIAN_MIRROR"
	say "adding the package sources ${suites[*]}, pinned so low that nothing is upgraded from them:"
	say "  $SOURCES"
	say "  $PINS"
	# The pins first: there is no moment at which the sources are unpinned.
	mkdir -p "$STATE" && echo "$pins" >"$PINS" || die 1 "cannot write $PINS"
	if ! fetch_sources "$SOURCES" "$MIRROR" "${suites[*]}"; then
		# Broken sources would make every later update of this machine fail.
		rm -f "$SOURCES" "$PINS"
		die 1 "cannot fetch the lists of ${suites[*]} from $MIRROR: $(fetch_error); if this machine uses a mirror, set METASCHED_DEBIAN_MIRROR"
	fi
}

sources_text() { # URI SUITES [LINE]
	echo "# Added by metasched (scripts/install.sh); \`make uninstall\` removes it.
Types: deb
URIs: $1
Suites: $2
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg${3:+
$3}"
}

# Writes a file of sources and fetches their lists; the machine's own are left as they are.
fetch_sources() { # FILE URI SUITES
	local expired
	for expired in "" "$EXPIRED"; do
		sources_text "$2" "$3" "$expired" >"$1" || die 1 "cannot write $1"
		apt-get update -q -o Dir::Etc::sourcelist="$1" -o Dir::Etc::sourceparts=- \
			-o APT::Get::List-Cleanup=0 >"$STATE/apt-update.log" 2>&1 && return 0
		grep -q 'is expired' "$STATE/apt-update.log" || return 1
		# A mirror that stands still. What it holds is signed all the same.
		[ -n "$expired" ] || say "$2 lags behind Debian, so the age of its lists is not checked for these sources"
	done
	return 1
}

fetch_error() { grep '^E:' "$STATE/apt-update.log" | head -n 1; }

# What the package manager would upgrade or remove, as "NAME (OLD -> NEW)".
changes_of_others() {
	awk '/^Remv /                  { print $2 " (removed)" }
	     /^Inst / && $3 ~ /^\[/    { print $2 " (" substr($3, 2, length($3) - 2) " -> " substr($4, 2) ")" }'
}

# The security archive holds the newer Rust. Where a machine lacks that source it is added
# for this installation only: a low pin that stayed would keep security updates away if
# the source were added later.
add_security_for_now() {
	case " ${missing[*]} " in *"/bookworm-security "*) ;; *) return 0 ;; esac
	suite_is_known bookworm-security && return 0
	local sources=$STATE/sources.d
	rm -rf "$sources" && mkdir -p "$sources" && cp -a /etc/apt/sources.list.d/. "$sources" ||
		die 1 "cannot write $sources"
	trap 'rm -rf "$STATE/sources.d"' EXIT
	fetch_sources "$sources/metasched-security.sources" "$SECURITY_MIRROR" bookworm-security ||
		die 1 "cannot fetch the lists of bookworm-security from $SECURITY_MIRROR: $(fetch_error); if this machine uses a mirror, set METASCHED_SECURITY_MIRROR"
	options+=(-o Dir::Etc::sourceparts="$sources")
}

simulate() { # PACKAGES...: prints what would be done
	apt-get install --simulate "${options[@]}" "$@" 2>&1
}

refuse_changes() { # CHANGES
	local package culprit
	echo "install: cannot install what is missing: packages that are on this machine would be changed:" >&2
	sed 's/^/install:   /' <<<"$1" >&2
	for package in "${missing[@]}"; do
		culprit=$(simulate "$package" | changes_of_others | paste -s -d ' ')
		[ -z "$culprit" ] || echo "install:   because of $package: $culprit" >&2
	done
	die 5 "nothing was installed; bring the machine up to date yourself (apt-get upgrade) or install these by hand, then try again"
}

install_missing() {
	local i plan changes new options=(--no-install-recommends --no-upgrade)
	say "missing:"
	for i in "${!missing[@]}"; do say "  ${missing[$i]%%/*}: ${purposes[$i]}"; done
	[ "${check_only:-}" = "" ] || exit 4
	has apt-get >/dev/null ||
		die 4 "cannot install it: this machine has no apt-get; install the above with its own package manager"
	[ "$(id -u)" = 0 ] || die 6 "cannot install it: root is needed; run 'sudo make install'"

	say "refreshing the package lists"
	mkdir -p "$STATE"
	apt-get update -q >"$STATE/apt-update.log" 2>&1 ||
		die 1 "cannot refresh the package lists: $(fetch_error)"
	add_security_for_now
	plan=$(simulate "${missing[@]}") ||
		die 4 "cannot install what is missing: $(grep -E '^E:|Depends' <<<"$plan" | head -n 4)"
	changes=$(changes_of_others <<<"$plan")
	[ -z "$changes" ] || refuse_changes "$changes"
	new=$(awk '/^Inst / { print $2 }' <<<"$plan")
	say "installing $(wc -l <<<"$new") packages, upgrading none:"
	paste -s -d ' ' <<<"$new" | fold -s -w 90 | sed 's/^/install:   /'
	# Recorded first: an interrupted installation must not be forgotten.
	sort -u -o "$STATE/installed" <(cat "$STATE/installed" 2>/dev/null) - <<<"$new" ||
		die 1 "cannot write $STATE/installed"
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-remove "${options[@]}" \
		"${missing[@]}" >"$STATE/apt-install.log" 2>&1 </dev/null ||
		die 1 "cannot install what is missing: $(tail -n 3 "$STATE/apt-install.log"); the whole log is $STATE/apt-install.log"
	find_missing
	[ "${#missing[@]}" -eq 0 ] || die 1 "after the installation these are still not usable: ${missing[*]}"
	say "done"
}

case ${1:-} in
	"") ;;
	--check) check_only=1 ;;
	*) die 2 "unknown option '$1'; there is only --check" ;;
esac
find_missing
if [ "${check_only:-}" = "" ]; then add_sources; fi
if [ "${#missing[@]}" -gt 0 ]; then install_missing; fi
