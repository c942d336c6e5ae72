# SPDX-License-Identifier: GPL-2.0-only
#
# Where this machine takes Debian from; for other scripts, which source it:
#
#   MIRROR            the archive, or nothing if the machine's own sources name none
#   SECURITY_MIRROR   the archive of security updates
#
# Environment: METASCHED_DEBIAN_MIRROR   where Debian's archive is
#              METASCHED_SECURITY_MIRROR where its security archive is
#              METASCHED_ROOT            where the machine's folders are, for a test (default: /)

# The address of an archive, from this machine's own sources: the first that ends so.
archive() { # ENDING
	local apt=${METASCHED_ROOT:-}/etc/apt
	cat "$apt"/sources.list "$apt"/sources.list.d/*.{list,sources} 2>/dev/null |
		sed -n -E 's/^(deb|URIs:) (.* )?(https?:[^ ]*[^ /])\/?( .*)?$/\3/p' | grep -m 1 "/$1\$"
}

MIRROR=${METASCHED_DEBIAN_MIRROR:-$(archive debian || true)}
SECURITY_MIRROR=${METASCHED_SECURITY_MIRROR:-$(archive debian-security || echo "$MIRROR-security")}
readonly MIRROR SECURITY_MIRROR
