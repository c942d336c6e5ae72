#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash
# The first program of the guest. It loads the modules that the root file
# system needs, shows the host's files through a copy-on-write view, and hands
# over to metasched's own first process, which does everything else: a program
# can reap, relay and report errors, where a script would lose some of each.
#
# It ends by failing where anything is amiss: the kernel then panics, and what
# was said here stands in the console's last lines.

fail() {
    echo "testbed: cannot $1"
    exit 1
}

# The order of the names is the order of loading: 00-netfs.ko, 01-9pnet.ko, ...
for module in /modules/*.ko; do
    [ -e "$module" ] || break
    busybox insmod "$module" || fail "load ${module##*/}"
done

# Its address comes with that.
busybox ifconfig lo up || fail "bring the loopback interface up"

# cache=loose: the guest keeps what it has read, and asks no more about it. It
# never writes there, and the host's files hardly change while it runs.
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 \
    root /lower || fail "mount the host's files"
busybox mount -t tmpfs -o mode=755,size=80% upper /writes || fail "make the writable layer"
busybox mkdir /writes/files /writes/work
busybox mount -t overlay -o lowerdir=/lower,upperdir=/writes/files,workdir=/writes/work \
    root /root || fail "put the writable layer over the host's files"

busybox mount -t tmpfs -o mode=755 run /root/run || fail "mount /run"
busybox mkdir /root/run/testbed
busybox cp /spec.json /root/run/testbed/spec.json || fail "hand over the orders"
read -r agent </agent || fail "read which program to start"
exec busybox switch_root /root "$agent" vm --guest-init
