#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes sure that what metasched is built, tested and measured with is there.
#
#   scripts/deps.sh            installs what is missing; quick when nothing is
#   scripts/deps.sh --check    only says what is missing (exit status 4)
#
# The package manager is asked what it would do, and is not let do it otherwise. Nothing is
# removed or downgraded. Of what is on the machine only that is upgraded which apt has come
# along with what is missing, and only to what the machine's own release has: its point
# releases, updates and security updates. Nothing comes from another suite, but what is named
# below with it. Everything is said before it is done, and what was added is recorded in
# /var/lib/metasched, for scripts/remove-deps.sh.
#
#   scripts/deps.sh --decide ID VERSION_ID <ANSWER
#
# only says what is made of an answer of `apt-get install --simulate -q=0` on the release with
# that ID and VERSION_ID in /etc/os-release, for a test: a line that begins with new, upgraded
# or refused for each package, or with unmet.
#
# The exit status is 0 if nothing is missing any more, 1 if something failed, 2 for wrong use,
# 4 if something is missing that cannot be had, 5 if apt would change what it must not, 6 if
# root is needed, and 130 if it was stopped by a signal.
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
RUST_MINOR=$(sed -n 's/^rust-version = "1\.\([0-9]*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml")
readonly RUST_MINOR
# smp-cache, and the fixes of emulated static branches, came with 9 and 10.
readonly QEMU_MAJOR=9

PATH=$PATH:/usr/sbin:/sbin
missing=()      # packages, with /SUITE where one is meant
purposes=()     # what each of them is for

say() { echo "deps: $*"; }
indented() { sed 's/^/deps:   /'; }
die() { # STATUS MESSAGE
	echo "deps: $2" >&2
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

# Where rustup brings Rust it brings Clippy too, and the package is in conflict with it.
clippy_is_there() { has cargo-clippy || has rustup; }

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

of_release() { # FIELD: what /etc/os-release says of this machine's
	sed -n -E "s/^$1=\"?([^\"]*)\"?\$/\1/p" /etc/os-release 2>/dev/null
}
codename=$(of_release VERSION_CODENAME)
# bookworm's own QEMU, bpftool and Rust are too old; later releases' are not.
newer='' newer_rust=''
if [ "$codename" = bookworm ]; then
	newer=/bookworm-backports
	newer_rust=bookworm-security
fi

find_missing() {
	missing=() purposes=()
	need ca-certificates "checks the certificates of package registries" test -e /etc/ssl/certs/ca-certificates.crt
	need gcc "compiles C" has cc
	need libc6-dev "C headers" test -e /usr/include/stdio.h
	need pkg-config "finds libraries" has pkg-config
	need clang-19 "compiles BPF, and its libclang reads what user space shares with it" has clang-19
	need libomp-19-dev "LLVM's OpenMP runtime, for programs of tests" test -e /usr/lib/llvm-19/lib/libomp.so
	need libelf-dev "libbpf is built on it" test -e /usr/include/libelf.h
	need zlib1g-dev "libbpf is built on it" test -e /usr/include/zlib.h
	need libseccomp-dev "the published scheduler scx_rustland is built on it" test -e /usr/include/seccomp.h
	if ! rust_is_new_enough >/dev/null 2>&1; then
		# Not by its suite: apt would take what it needs from there too, which may be older
		# than the point release's, as libcurl4 is, so that there was no way to have curl.
		need cargo-web "builds Rust (a cargo from 1.$RUST_MINOR on is not on PATH)" false
		need rustc-web "compiles Rust" false
		need libstd-rust-web-dev "Rust's library" false
		need rustfmt-web "checks the formatting of Rust" false
	fi
	need rust-web-clippy "looks for mistakes in Rust" clippy_is_there
	need shellcheck "looks for mistakes in scripts" has shellcheck
	# With what it needs of its own version: apt takes a dependency from another suite
	# only where it is named.
	local qemu
	for qemu in qemu-system-x86 qemu-system-common qemu-system-data seabios; do
		need "$qemu$newer" "boots a kernel with sched_ext" qemu_is_new_enough
	done
	need busybox-static "the guest's first commands" has busybox
	need kmod "lists what kernel modules need" has depmod
	need "bpftool$newer" "builds the schedulers of the kernel's tools, which tests change to and policies are compared with" has bpftool
	need make "builds these, and the kernel's own test of cgroups" has make
	need curl "fetches the kernel's source, and goes on where that was interrupted" has curl
	need xz-utils "unpacks the kernel's source" has xz
	need cpio "packs the first file system of a kernel without modules" has cpio
	need redis-tools "the service beside a neighbour, and its clients" has redis-benchmark
	need wrk "loads the question-answering application" has wrk
	need rt-tests "hackbench" has hackbench
	need sysbench "threads that lock, and that compute" has sysbench
	need stress-ng "changes affinities while lanes change" has stress-ng
	need libbpf-tools "runqlat, which 'metasched latency' is held against" has runqlat
	need tmux "drives 'metasched top' as a person does, in a test" has tmux
	need chromium "lays the report's page out, in a test" has chromium
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
		say "without root the package sources for kernels (${suites[*]}) are not added; 'sudo make deps' adds them"
		return 0
	fi
	[ -n "$MIRROR" ] || die 4 "cannot add the package sources ${suites[*]}: this machine's own sources name no Debian archive; set METASCHED_DEBIAN_MIRROR"
	say "adding the package sources ${suites[*]}, pinned so low that nothing is upgraded from them:"
	say "  $SOURCES"
	say "  $PINS"
	# The pins first: there is no moment at which the sources are unpinned.
	{ mkdir -p "$STATE" && echo "$pins" >"$PINS"; } || die 1 "cannot write $PINS"
	if ! fetch_sources "$SOURCES" "$MIRROR" "${suites[*]}"; then
		# Broken sources would make every later update of this machine fail.
		rm -f "$SOURCES" "$PINS"
		die 1 "cannot fetch the lists of ${suites[*]} from $MIRROR: $(fetch_error); if this machine uses a mirror, set METASCHED_DEBIAN_MIRROR"
	fi
}

sources_text() { # URI SUITES [LINE]
	echo "# Added by metasched (scripts/deps.sh); \`make remove-deps\` removes it.
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

# What is made of apt's answer to a simulated installation, and of nothing else:
#
#   new PACKAGE
#   upgraded PACKAGE (OLD -> NEW, SOURCE)
#   refused PACKAGE WHY
#   unmet WHAT            apt has found no way
#
# The status is 0, or 5 if something is refused, or 4 if something is unmet.
decide() { # ID VERSION_ID
	awk -v id="$1" -v release="$2" '
	# apt names a source LABEL:VERSION/SUITE, as in Debian-Security:12/oldstable-security. Of
	# the suites of Debian 12 the version is 12.N, 12-updates or 12; backports have none.
	function is_own(source,    label, version, suite) {
		label = tolower(source)
		if (release == "" || !sub(/:[^:]*$/, "", label)) return 0
		if (label != id && label != id "-security") return 0
		version = suite = substr(source, length(label) + 2)
		sub(/\/.*/, "", version)
		# Other than Debian, Ubuntu gives a version to backports and to what is only proposed.
		if (suite ~ /backports|proposed/) return 0
		return version == release || version == release "-updates" ||
			index(version, release ".") == 1
	}
	# The same version may be in several suites.
	function one_is_own(sources,    i, n, list) {
		n = split(sources, list, /, /)
		for (i = 1; i <= n; i++) if (is_own(list[i])) return 1
		return 0
	}
	function refuse(package, why) {
		print "refused " package " " why
		refused = 1
	}

	# Progress overwrites itself.
	{ sub(/.*\r/, "") }
	# Lists of names, indented below what is said of all of them.
	/^The following packages will be DOWNGRADED:/      { list = "downgraded"; next }
	/^The following held packages will be changed:/    { list = "held"; next }
	/^The following packages have unmet dependencies:/ { list = "unmet"; next }
	/^ / && list == "unmet" { sub(/^ +/, ""); print "unmet " $0; unmet = 1; next }
	/^ / && list != ""      { for (i = 1; i <= NF; i++) listed[list, $i] = 1; next }
	                        { list = "" }
	/^E: /                  { print "unmet " substr($0, 4); unmet = 1 }
	/^(Remv|Purg) /         { refuse($2, "would be removed") }

	# Selected version VERSION (SOURCE [ARCH]) for PACKAGE [because of ANOTHER], each in
	# quotes: the package was asked for with its suite, or is wanted by one that was.
	/^Selected version / {
		split($0, part, sprintf("%c", 39))
		by_suite[part[4], part[2]] = $0 ~ / because of / ? "wanted" : "asked"
	}
	# Inst PACKAGE [OLD] (NEW SOURCE [ARCH]) [PACKAGES...], without OLD if it is not there yet.
	/^Inst / {
		package = $2
		old = $3 ~ /^\[/ ? substr($3, 2, length($3) - 2) : ""
		source = substr($0, index($0, " (") + 2)
		sub(/ \[[^] ]*\]\).*/, "", source)
		version = source
		sub(/ .*/, "", version)
		source = substr(source, length(version) + 2)
		own = one_is_own(source)
		asked = by_suite[package, version]
		change = old " -> " version ", " source
		if (old == "") {
			# A machine with the source of another vendor wants what it has. A suite of the same
			# vendor is another release, and may be one that we added.
			if (own || asked != "" || release == "" || index(tolower(source), id) != 1)
				print "new " package
			else
				refuse(package, "would come from another suite (" version ", " source ")")
		} else if (("downgraded", package) in listed) {
			refuse(package, "would be downgraded (" change ")")
		} else if (("held", package) in listed) {
			refuse(package, "is held, and would be upgraded (" change ")")
		} else if (own || asked == "asked") {
			print "upgraded " package " (" change ")"
		} else {
			refuse(package, "would be upgraded from another suite (" change ")")
		}
	}
	END { exit unmet ? 4 : refused ? 5 : 0 }'
}

# The security archive holds the newer Rust. Where a machine lacks that source it is added
# for this installation only: a low pin that stayed would keep security updates away if
# the source were added later.
add_security_for_now() {
	[ -n "$newer_rust" ] && ! { rust_is_new_enough && clippy_is_there; } >/dev/null 2>&1 &&
		! suite_is_known "$newer_rust" || return 0
	local sources=$STATE/sources.d
	{ rm -rf "$sources" && mkdir -p "$sources" && cp -a /etc/apt/sources.list.d/. "$sources"; } ||
		die 1 "cannot write $sources"
	trap 'rm -rf "$STATE/sources.d"' EXIT
	fetch_sources "$sources/metasched-security.sources" "$SECURITY_MIRROR" "$newer_rust" ||
		die 1 "cannot fetch the lists of $newer_rust from $SECURITY_MIRROR: $(fetch_error); if this machine uses a mirror, set METASCHED_SECURITY_MIRROR"
	options+=(-o Dir::Etc::sourceparts="$sources")
	for_now=1
}

simulate() { # PACKAGES...: prints what would be done
	# Quieter, as where there is no terminal, it does not say what it selects by suite.
	LC_ALL=C apt-get install --simulate -q=0 "${options[@]}" "$@" 2>&1
}

decide_here() { decide "$(of_release ID)" "$(of_release VERSION_ID)"; }

refuse_changes() { # REFUSED
	local package why culprits=() first=
	echo "deps: cannot install what is missing: apt would change what is to stay as it is:" >&2
	indented <<<"$1" >&2
	for package in "${missing[@]}"; do
		why=$(simulate "$package" | decide_here |
			sed -n 's/^refused \([^ ]*\).*/\1/p' | paste -s -d ' ')
		[ -n "$why" ] || continue
		culprits+=("$package")
		echo "deps:   because of $package: $why" >&2
	done
	[ "${#culprits[@]}" -gt 0 ] || culprits=("${missing[@]}")
	# It was added for this call only.
	[ -z "$for_now" ] || first="
deps:   echo 'deb $SECURITY_MIRROR $newer_rust main' >>/etc/apt/sources.list; apt-get update"
	die 5 "nothing was installed; if that may happen, do it yourself and try again:$first
deps:   apt-get install --no-install-recommends ${culprits[*]}"
}

refuse_unmet() { # CAUSE
	die 4 "cannot install what is missing: $1
deps: nothing was installed; 'apt-cache policy PACKAGE' says which versions there are and where:
deps: add the source that lacks, release what is held (apt-mark showhold), or install what is
deps: missing by hand, and try again"
}

install_missing() {
	local i plan decision status new upgraded options=(--no-install-recommends) for_now=
	say "missing:"
	for i in "${!missing[@]}"; do say "  ${missing[$i]%%/*}: ${purposes[$i]}"; done
	[ "${check_only:-}" = "" ] || exit 4
	has apt-get >/dev/null ||
		die 4 "cannot install it: this machine has no apt-get; install the above with its own package manager"
	[ "$(id -u)" = 0 ] || die 6 "cannot install it: root is needed; run 'sudo make deps'"

	# apt ends as if all had gone well.
	trap 'die 130 "stopped; the next call goes on"' INT TERM
	say "refreshing the package lists"
	mkdir -p "$STATE"
	apt-get update -q >"$STATE/apt-update.log" 2>&1 ||
		die 1 "cannot refresh the package lists: $(fetch_error)"
	add_security_for_now
	plan=$(simulate "${missing[@]}")
	status=$?
	decision=$(decide_here <<<"$plan")
	case $? in
		0) ;;
		5) refuse_changes "$(sed -n 's/^refused //p' <<<"$decision")" ;;
		*) refuse_unmet "$(sed -n 's/^unmet //p' <<<"$decision" | head -n 4)" ;;
	esac
	[ "$status" = 0 ] || refuse_unmet "$(tail -n 3 <<<"$plan")"
	new=$(sed -n 's/^new //p' <<<"$decision")
	upgraded=$(sed -n 's/^upgraded //p' <<<"$decision")
	[ -n "$new$upgraded" ] ||
		die 1 "cannot make usable what is missing: apt has it as installed; put it right with
deps:   apt-get install --reinstall ${missing[*]%%/*}"
	if [ -n "$upgraded" ]; then
		say "upgrading $(wc -l <<<"$upgraded") packages, which come along:"
		indented <<<"$upgraded"
	fi
	if [ -n "$new" ]; then
		say "installing $(wc -l <<<"$new") packages:"
		paste -s -d ' ' <<<"$new" | fold -s -w 90 | indented
		# Recorded first: an interrupted installation must not be forgotten. Without what is
		# upgraded, which was on the machine before us and stays.
		sort -u -o "$STATE/installed" <(cat "$STATE/installed" 2>/dev/null) - <<<"$new" ||
			die 1 "cannot write $STATE/installed"
	fi
	# What is upgraded keeps its settings: there is nobody to ask.
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-remove "${options[@]}" \
		-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
		"${missing[@]}" >"$STATE/apt-install.log" 2>&1 </dev/null ||
		die 1 "cannot install what is missing: $(tail -n 3 "$STATE/apt-install.log"); the whole log is $STATE/apt-install.log"
	find_missing
	[ "${#missing[@]}" -eq 0 ] ||
		die 1 "after the installation these are still not usable: ${missing[*]}"
	say "done"
}

case ${1:-} in
	"") ;;
	--check) check_only=1 ;;
	--decide)
		[ $# = 3 ] || die 2 "--decide takes an ID, a VERSION_ID, and apt's answer on standard input"
		decide "$2" "$3"
		exit
		;;
	*) die 2 "unknown option '$1'; there are --check and --decide" ;;
esac
find_missing
if [ "${check_only:-}" = "" ]; then add_sources; fi
if [ "${#missing[@]}" -gt 0 ]; then install_missing; fi
