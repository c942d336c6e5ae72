#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the tests of the kernel program and of what controls it on a kernel of which the
# archive has the image only: its modules are gone, so `metasched vm` cannot boot it. The
# guest has a first file system with the test programs and what those call, and talks over
# serial lines.
#
#   scripts/test-image.sh 7.0.13          every test of crates/loader, control and faulty
#   scripts/test-image.sh 7.0.13 lanes::  those whose names have that in them
#
# The exit status is 0 if they passed, 1 if not, 2 for wrong use, 4 if something is missing.
#
# Environment: GUEST_TIMEOUT   time for the whole guest, in seconds (default 900)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

# What the tests call, and what the first process below does.
readonly COMMANDS=(bash sh mount mkdir cat sleep true taskset hackbench stress-ng bpftool)
# Whose tests: those that need a kernel, and no more of a system than that.
readonly CRATES=(loader control faulty)

die() { # STATUS MESSAGE
	echo "test-image: $2" >&2
	exit "$1"
}

[ $# -ge 1 ] && [[ $1 =~ ^[0-9.]+$ ]] || { sed -n '3,14s/^# \{0,1\}//p' "$0"; exit 2; }
version=$1
shift
PATH=$PATH:/usr/sbin:/sbin
for tool in cpio qemu-system-x86_64 "${COMMANDS[@]}"; do
	type -P "$tool" >/dev/null || die 4 "cannot test on $version: there is no $tool; run \`make install\`"
done
package=$(apt-cache pkgnames linux-binary- | grep -E "^linux-binary-${version//./\\.}\+[a-z0-9]+-amd64$") ||
	die 4 "cannot test on $version: the archive has no linux-binary-$version*-amd64; \`apt-cache pkgnames linux-binary-\` shows what there is"

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
[ ${#programs[@]} = ${#CRATES[@]} ] && cargo build --release --workspace --locked 2>/dev/null ||
	die 1 "the tests do not build; \`cargo test --release --workspace --no-run\` says why"

# The first file system.
root=$work/root
mkdir -p "$root"/{proc,sys,dev,tmp,run/lock,usr/bin,usr/lib,usr/lib64,usr/sbin} || exit 1
for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$root/$folder"; done
libraries() { ldd "$1" 2>/dev/null | grep -o '/[^ ]*'; }
place() { # FILE PLACE: with the libraries that it needs
	local library
	cp -L "$1" "$root/$2" || exit 1
	for library in $(libraries "$1"); do
		mkdir -p "$root$(dirname "$library")"
		[ -e "$root$library" ] || cp -L "$library" "$root$library"
	done
}
for command in "${COMMANDS[@]}"; do place "$(type -P "$command")" "usr/bin/$command"; done
# Where they look for the command: as it is in cargo's folder.
mkdir -p "$root/target/deps"
place target/release/metasched target/metasched
for program in "${programs[@]}"; do place "$program" "target/deps/${program##*/}"; done
# None: all of them, so no line either.
{ [ $# = 0 ] || printf '%s\n' "$@"; } >"$root/names"
cat >"$root/init" <<'INIT'
#!/bin/bash
export PATH=/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracing /sys/kernel/tracing
mapfile -t names </names
status=0
for program in /target/deps/*; do
	"$program" --ignored --nocapture --test-threads=1 "${names[@]}" </dev/null >/dev/ttyS1 2>&1 || status=$?
done
echo "status $status" >/dev/ttyS1
echo o >/proc/sysrq-trigger
sleep 60
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd" || exit 1

# As `metasched vm --thread single` boots it, see crates/testbed/src/qemu.rs.
timeout --foreground "${GUEST_TIMEOUT:-900}" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
	-display none -machine q35 -accel tcg,thread=single -smp 2 -m 3G \
	-cpu max,-avx,-avx2,-fma,-f16c,-vaes,-vpclmulqdq,-mpx,-pku,-la57 \
	-kernel "$image" -initrd "$work/initrd" \
	-append "console=ttyS0 loglevel=4 panic=-1 oops=panic tsc=reliable mitigations=off no_timer_check" \
	-serial "file:$work/console" -serial stdio </dev/null | tee "$work/out"
status=$(sed -n 's/^status \([0-9]*\).*/\1/p' "$work/out")
if [ -z "$status" ]; then
	tail -n 20 "$work/console" >&2
	die 1 "the guest ended before the tests did, on $package"
fi
totals=$(awk '/^test result/ { p += $4; f += $6 } END { print p + 0 " passed, " f + 0 " failed" }' "$work/out")
echo "test-image: $package: $totals"
# No test ran: that is no success.
[ "$status" = 0 ] && [ "${totals%% *}" -gt 0 ]
