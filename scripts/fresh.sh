#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs what README.md promises for a fresh machine, from nothing: a new root of Debian 12 from
# debootstrap, with the main archive only; in it a clone of the last commit; and there the two
# commands of README.md, with the time that each takes. For before a release, since it builds
# everything and fetches everything: hours, and some 10 GB below $TMPDIR while it runs.
#
#   scripts/fresh.sh                  make demo, then make test
#   scripts/fresh.sh --only deps      only what both begin with, in minutes
#   scripts/fresh.sh --only demo      one of the two; or test
#   scripts/fresh.sh --keep ...       leaves the root, and says where it is
#
# From this machine the root has how it reaches the network, and no more: proxies,
# certificates, names, and where packages come from. What runs there has mounts and process
# numbers of its own, so that all of it ends with the script, however that ends. Ctrl-C stops
# it and removes the root.
#
# The exit status is
#   0    the commands did everything
#   1    one of them failed, or the root could not be made
#   2    wrong use
#   4    something is missing
#   6    root is needed
#   130  it was stopped by a signal
#
# Environment: METASCHED_DEBIAN_MIRROR   where Debian's archive is
#                                        (default: where this machine takes it from)
#              METASCHED_SECURITY_MIRROR where its security archive is (likewise)
#              TMPDIR                    where the root is made (default /tmp)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/archive.sh

readonly RELEASE=bookworm
# debootstrap makes a root without it, and a machine on which somebody calls make has it.
readonly INCLUDE=make
# Where the project is in the root.
readonly PROJECT=/root/metasched
# How long what was told to stop has for that, in seconds: a guest ends, a build goes away.
readonly PATIENCE=30

work=   # the folder with the root
child=  # the process group of what runs
keep=
steps=()

say() { echo "fresh: $*"; }
die() { # STATUS MESSAGE
	echo "fresh: $2" >&2
	exit "$1"
}
usage() { sed -n '3,31s/^# \{0,1\}//p' "$0"; }

# What is mounted in the root is so in the namespace of what ran there, and went with that. A
# mount of ours that is seen here nevertheless must not be emptied.
remove_root() {
	[ -n "$work" ] || return 0
	if [ -n "$keep" ]; then
		say "the root is left in $work/root; remove it with: rm -rf $work"
		return 0
	fi
	say "removing the root" >&3
	rm -rf --one-file-system -- "$work" || say "cannot remove all of $work; do it by hand"
	work=
}

# Everything long runs in a process group of its own, which gets the signal once, be it from
# a terminal or sent to this script alone.
stop() {
	trap '' INT TERM HUP
	if [ -n "$child" ]; then
		say "stopping" >&3
		kill -INT -- "-$child" 2>/dev/null || true
		local second
		for ((second = 0; second < PATIENCE; second++)); do
			kill -0 -- "-$child" 2>/dev/null || break
			sleep 1
		done
		# Its first process is the only one that matters: the rest of its namespace goes with it.
		kill -KILL -- "-$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	exit 130
}
set -m
# Where what runs writes to a file, so would the trap.
exec 3>&1
trap remove_root EXIT
trap stop INT TERM HUP

run() { # COMMAND...
	"$@" </dev/null &
	child=$!
	local status=0
	wait "$child" || status=$?
	child=
	return "$status"
}

# Mounts and processes that exist for one command only.
alone() { # COMMAND...
	# They end with this script also where nothing is left of it to end them.
	run setpriv --pdeathsig KILL \
		unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

make_root() {
	say "making a root of Debian's $RELEASE from $MIRROR"
	local proxy='' include=$INCLUDE settings=()
	eval "$(apt-config shell proxy Acquire::http::Proxy 2>/dev/null)"
	[ -z "$proxy" ] || [ -n "${http_proxy:-}" ] || settings+=("http_proxy=$proxy")
	# Else apt could not check whom it speaks to.
	[[ $MIRROR != https:* ]] || include+=,ca-certificates
	mkdir "$work/root"
	alone env "${settings[@]}" debootstrap --include="$include" "$RELEASE" "$work/root" "$MIRROR" \
		>"$work/debootstrap.log" 2>&1 ||
		die 1 "cannot make a root of $RELEASE: $(tail -n 2 "$work/debootstrap.log" | paste -s -d ' ')
fresh: see whether $MIRROR can be reached, or set METASCHED_DEBIAN_MIRROR"
	# Packages must not start services: they would not see that this is no machine.
	printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d"
	chmod +x "$work/root/usr/sbin/policy-rc.d"
}

# How this machine reaches the network. Fills $settings, the environment of the commands.
copy_network() {
	local root=$work/root name value file
	for file in /etc/resolv.conf /etc/hosts; do
		# It may be a link into a folder that the root does not have.
		rm -f "$root$file"
		copy_file "$file" "$file"
	done
	apt_settings >"$root/etc/apt/apt.conf.d/99network"
	# Its own authorities, as whoever set up this machine gave them to Debian's package.
	if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
		mkdir -p "$root/usr/local/share/ca-certificates"
		cp -L /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates"
	fi
	file=${CARGO_HOME:-$HOME/.cargo}/config.toml
	if [ -e "$file" ]; then
		mkdir -p "$root/root/.cargo"
		# Not what else may be there: how this machine compiles is of no matter to the root.
		awk '/^\[/ { keep = /^\[(source|registries|registry|http|net)[].]/ } keep' "$file" \
			>"$root/root/.cargo/config.toml"
	fi
	copy_file /etc/pip.conf /etc/pip.conf
	copy_file "$HOME/.config/pip/pip.conf" /root/.config/pip/pip.conf
	settings=(HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}"
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
	while IFS= read -r -d '' value; do
		name=${value%%=*} value=${value#*=}
		case $name in
			*_TOKEN | *_PASSWORD) continue ;;
			SSL_CERT_FILE | CURL_CA_BUNDLE | REQUESTS_CA_BUNDLE | PIP_CERT | CARGO_HTTP_CAINFO)
				# What is in /etc/ssl the package ca-certificates makes in the root as well.
				[[ $value == /etc/ssl/* ]] || copy_file "$value" "$value"
				;;
			*_proxy | *_PROXY | PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_TRUSTED_HOST) ;;
			CARGO_HTTP_* | CARGO_NET_* | CARGO_REGISTRIES_* | CARGO_SOURCE_*) ;;
			METASCHED_DEBIAN_MIRROR | METASCHED_SECURITY_MIRROR) continue ;;
			*) continue ;;
		esac
		settings+=("$name=$value")
	done < <(env -0)
	# The root knows the main archive from debootstrap, and where the other one is from that.
	[ "$SECURITY_MIRROR" = "$MIRROR-security" ] ||
		settings+=("METASCHED_SECURITY_MIRROR=$SECURITY_MIRROR")
}

copy_file() { # FROM TO: TO is below the root; nothing if there is none
	[ -f "$1" ] || return 0
	mkdir -p "$(dirname "$work/root$2")"
	cp -L "$1" "$work/root$2"
}

# Proxies, and what a mirror needs that stands still. Not scripts that find a proxy: they are
# not in the root.
apt_settings() {
	apt-config dump |
		grep -i -E '^Acquire::(https?::.*Proxy|https?::Timeout|Retries|Force|Check-)' |
		grep -v -i -E '::Proxy-?Auto-?Detect|""|:: ' || true
}

copy_project() {
	local commit
	commit=$(git rev-parse HEAD) ||
		die 1 "cannot clone the project: its folder is no git repository; clone it, and call this there"
	say "cloning $(git log -1 --format='%h %s')"
	[ -z "$(git status --porcelain)" ] || say "what is not committed is not in it"
	# Without the links that a clone beside its source would have.
	git clone --quiet --no-local --no-checkout . "$work/root$PROJECT"
	git -C "$work/root$PROJECT" -c advice.detachedHead=false checkout --quiet "$commit"
}

# The first process of the commands' namespace. It is a shell that waits for them, since the kernel
# ends all others with it, and keeps from it the signals that make would end by.
# shellcheck disable=SC2016 # that shell expands it, not this one
readonly INSIDE='
	root=$1
	shift
	mount --bind "$root" "$root" && mount -t proc proc "$root/proc" &&
		mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
		mount -t tmpfs run "$root/run" || exit 1
	mkdir -p "$root/run/lock"
	chroot "$root" "$@"
	exit $?'

make_step() { # STEP
	alone bash -c "$INSIDE" inside "$work/root" \
		env -i "${settings[@]}" make -C "$PROJECT" "$1"
}

duration() { # SECONDS
	printf '%d:%02d:%02d' $(($1 / 3600)) $(($1 / 60 % 60)) $(($1 % 60))
}

while [ $# -gt 0 ]; do
	case $1 in
		--only)
			case ${2:-} in
				deps | demo | test) steps=("$2") ;;
				*) die 2 "there is no step '${2:-}'; --only takes deps, demo or test" ;;
			esac
			shift 2
			;;
		--keep) keep=1; shift ;;
		-h | --help) usage; exit 0 ;;
		*) die 2 "unknown option '$1'; there are --only, --keep and --help" ;;
	esac
done
# In README.md's order: the demo is what has to get by with nothing.
[ "${#steps[@]}" -gt 0 ] || steps=(demo test)

[ "$(id -u)" = 0 ] || die 6 "cannot make a root: root is needed; run 'sudo make fresh'"
PATH=$PATH:/usr/sbin:/sbin
for tool in debootstrap unshare setpriv git apt-config; do
	type -P "$tool" >/dev/null ||
		die 4 "cannot make a root: there is no $tool; apt-get install debootstrap util-linux git"
done
[ -n "$MIRROR" ] ||
	die 4 "cannot make a root: this machine names no Debian archive; set METASCHED_DEBIAN_MIRROR"

work=$(mktemp -d "${TMPDIR:-/tmp}/metasched-fresh.XXXXXX")
begun=$SECONDS
make_root
copy_network
copy_project
say "the root is there after $(duration $((SECONDS - begun)))"

results=()
failed=
for step in "${steps[@]}"; do
	say "make $step"
	begun=$SECONDS status=0
	make_step "$step" || status=$?
	result="make $step: $(duration $((SECONDS - begun)))"
	if [ "$status" != 0 ]; then
		result+=", failed with status $status"
		failed=1
	fi
	results+=("$result")
	say "$result"
done
say "on Debian $(cat "$work/root/etc/debian_version") from nothing, $(nproc) CPUs:"
for result in "${results[@]}"; do say "  $result"; done
[ -z "$failed" ]
