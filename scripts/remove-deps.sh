#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Takes away what scripts/deps.sh and the project's own use added to this machine:
# the package sources and their pins, the lists that came with them, the caches, the state,
# and what is true until the next boot only; of the user who calls it with sudo too. What
# was made in the project's folder is for `make clean`. Packages stay, unless PURGE=1; what was
# upgraded stays as it is.
#
#   scripts/remove-deps.sh [--yes]     --yes: do not ask
#
# Environment: METASCHED_ROOT   where the machine's folders are, for a test (default: /)
set -u -o pipefail

readonly ROOT=${METASCHED_ROOT:-}
readonly STATE=$ROOT/var/lib/metasched
readonly CACHE=${METASCHED_CACHE_ROOT:-$ROOT/var/cache/metasched}
readonly RUN=$ROOT/run/metasched
readonly CGROUP=$ROOT/sys/fs/cgroup/metasched
readonly SOURCES=$ROOT/etc/apt/sources.list.d/metasched.sources
readonly PINS=$ROOT/etc/apt/preferences.d/metasched.pref

say() { echo "remove-deps: $*"; }
die() { # STATUS MESSAGE
	echo "remove-deps: $2" >&2
	exit "$1"
}

[ "$(id -u)" = 0 ] || die 6 "cannot remove anything: root is needed; run 'sudo make remove-deps'"

# Packages that we installed and that are still there.
installed=()
if [ -s "$STATE/installed" ]; then
	# shellcheck disable=SC2016 # dpkg-query expands it
	mapfile -t installed < <(xargs -r dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}\n' \
		<"$STATE/installed" 2>/dev/null | sed -n 's/^ii \([^:]*\).*/\1/p')
fi

# Held by whatever puts schedulers in force: pulled away from under it, it could not put
# right what it changed.
if [ -e "$RUN/lock" ] && ! flock --shared --nonblock "$RUN/lock" true; then
	die 5 "cannot remove $RUN: a metasched is at work; end it first: metasched stop"
fi

paths=("$SOURCES" "$PINS" "$CACHE" "$STATE" "$RUN" "$CGROUP")
home=$(getent passwd "${SUDO_USER:-}" | cut -d: -f6)
if [ -n "$home" ]; then
	paths+=("$home/.cache/metasched" "$home/.local/state/metasched" "/run/user/$SUDO_UID/metasched")
fi
present=()
for path in "${paths[@]}"; do
	[ -e "$path" ] && present+=("$path")
done
if [ "${#present[@]}" -eq 0 ]; then
	say "nothing of metasched is on this machine"
	exit 0
fi
say "this will be removed:"
for path in "${present[@]}"; do say "  $path"; done
if [ "${PURGE:-}" = 1 ] && [ "${#installed[@]}" -gt 0 ]; then
	say "and these packages, which metasched installed: ${installed[*]}"
fi
if [ "${1:-}" != --yes ]; then
	read -r -p "remove-deps: go on? [y/N] " answer || answer=
	[ "$answer" = y ] || die 1 "nothing was removed"
fi

if [ "${#installed[@]}" -gt 0 ]; then
	if [ "${PURGE:-}" = 1 ]; then
		# Something that came later may need one of them; that is not ours to remove.
		others=$(apt-get remove --simulate "${installed[@]}" | awk '/^Remv / { print $2 }' |
			sort | comm -23 - <(printf '%s\n' "${installed[@]}" | sort) | paste -s -d ' ')
		[ -z "$others" ] ||
			die 5 "cannot remove the packages: these, which metasched did not install, would go too: $others; run it without PURGE=1"
		DEBIAN_FRONTEND=noninteractive apt-get remove --yes --quiet "${installed[@]}" >/dev/null ||
			die 1 "cannot remove the packages"
	else
		say "these packages were installed by metasched and stay; remove them with"
		say "  apt-get remove ${installed[*]}"
	fi
fi
had_sources=$([ -e "$SOURCES" ] && echo 1)
# A cgroup is a folder whose files cannot be removed.
[ ! -d "$CGROUP" ] || find "$CGROUP" -depth -type d -exec rmdir {} + || die 1 "cannot remove $CGROUP"
rm -rf -- "${present[@]}" || die 1 "cannot remove all of it"
# The lists of the removed sources go with the next update.
if [ -n "$had_sources" ]; then
	apt-get update -q >/dev/null 2>&1 || say "the package lists could not be refreshed; 'apt-get update' will do it"
fi
say "done"
