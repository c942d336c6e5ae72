#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the tests of the kernel program and of what controls it on a kernel of which the
# archive has the image only: its modules are gone, and KVM with them. The guest has the test programs and
# what those call, and no other files.
#
#   scripts/test-image.sh 7.0.13          every test of crates/loader, control and faulty
#   scripts/test-image.sh 7.0.13 lanes::  those whose names have that in them
#
# The exit status is 0 if they passed, 1 if not, 2 for wrong use, 4 if something is missing.
#
# Environment: GUEST_TIMEOUT   time for the whole guest, in seconds (default 900)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

# What the tests call.
readonly COMMANDS=(bash sh cat mkdir sleep true taskset hackbench stress-ng bpftool)
# Whose tests: those that need a kernel, and no more of a system than that.
readonly CRATES=(loader control faulty)

die() { # STATUS MESSAGE
	echo "test-image: $2" >&2
	exit "$1"
}

[[ $# -ge 1 && $1 =~ ^[0-9.]+$ ]] || { sed -n '3,13s/^# \{0,1\}//p' "$0"; exit 2; }
version=$1
shift
PATH=$PATH:/usr/sbin:/sbin
for tool in ldd qemu-system-x86_64 "${COMMANDS[@]}"; do
	type -P "$tool" >/dev/null || die 4 "cannot test on $version: there is no $tool; run \`make deps\`"
done
package=$(apt-cache pkgnames linux-binary- | grep -E "^linux-binary-${version//./\\.}\+[a-z0-9]+-amd64$") ||
	die 4 "cannot test on $version: the archive has no linux-binary-$version*-amd64; \`apt-cache pkgnames linux-binary-\` shows what there is"

peers=$(scripts/kernel-peers.sh scx_simple) ||
	die 4 "cannot test on $version: there is no published scheduler for the tests"
PATH=$peers:$PATH
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit 1
(cd "$work" && apt-get download -q "$package" >/dev/null 2>"$work/apt" && dpkg-deb -x ./*.deb kernel) ||
	die 1 "cannot fetch $package: $(tail -n 1 "$work/apt")"
image=$(find "$work/kernel/boot" -name 'vmlinuz*' | head -n 1)
# Of the whole workspace, or else what they depend on would be compiled anew, with fewer features.
mapfile -t programs < <(cargo test --release --workspace --test guest --locked --no-run --message-format=json 2>/dev/null |
	/usr/bin/python3 -c '
import json, os, sys
for message in map(json.loads, sys.stdin):
    if message.get("executable") and message["profile"]["test"]:
        if os.path.basename(os.path.dirname(message["manifest_path"])) in sys.argv[1:]:
            print(message["executable"])
' "${CRATES[@]}")
{ [ ${#programs[@]} = ${#CRATES[@]} ] && cargo build --release --workspace --locked 2>/dev/null; } ||
	die 1 "the tests do not build; \`cargo test --release --workspace --no-run\` says why"

with=()
for program in "${COMMANDS[@]}" scx_simple "${programs[@]}"; do with+=(--with "$program"); done
# shellcheck disable=SC2016 # The guest's shell expands them.
target/release/metasched vm --no-modules --kernel "$image" "${with[@]}" --cpus 2 --memory 3G \
	--thread single --accel tcg --timeout "${GUEST_TIMEOUT:-900}s" -- bash -c '
	names=() status=0
	while [ "$1" != -- ]; do names+=("$1"); shift; done
	shift
	for program; do
		"$program" --ignored --nocapture --test-threads=1 --skip kvm:: "${names[@]}" 2>&1 || status=$?
	done
	exit "$status"' bash "$@" -- "${programs[@]}" | tee "$work/out"
status=$?
totals=$(awk '/^test result/ { p += $4; f += $6 } END { print p + 0 " passed, " f + 0 " failed" }' "$work/out")
echo "test-image: $package: $totals"
# No test ran: that is no success.
[ "$status" = 0 ] && [ "${totals%% *}" -gt 0 ]
