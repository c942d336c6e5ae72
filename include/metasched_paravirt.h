/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host tells a virtual machine, a container or a cgroup of it about CPUs: how many of its virtual
 * CPUs wait on the host's run queues, how many of the host's CPUs have nothing to do, and how many are owed
 * to it by others. A parallel runtime chooses its number of threads by it. docs/paravirt-page.md has the same in words.
 *
 * The page is 4096 bytes, written by the host only. All numbers are little-endian.
 */
#ifndef METASCHED_PARAVIRT_H
#define METASCHED_PARAVIRT_H

#include <stdint.h>

/* "MSCHEDPV" in memory. */
#define METASCHED_PARAVIRT_MAGIC 0x565044454843534dULL
#define METASCHED_PARAVIRT_VERSION 1
#define METASCHED_PARAVIRT_BYTES 4096

struct metasched_paravirt_page {
	/* METASCHED_PARAVIRT_MAGIC; 0 in a page that nobody has written yet. */
	uint64_t magic;
	/* METASCHED_PARAVIRT_VERSION. A reader of another version does not use the page. */
	uint32_t version;
	/* Odd while the host writes. A reader takes it, then what follows, then it again: what it read holds
	 * if it was even and is the same, else it tries once more. */
	uint32_t sequence;
	/* How many windows were written so far. One that stands still for two windows is of a host that
	 * does not tell any more. */
	uint64_t windows;
	/* How long a window is to be, ns. */
	uint64_t window_ns;
	/* When the last one began and ended, ns of the host's CLOCK_MONOTONIC. Only their difference means
	 * anything to a guest, whose clock is another. */
	uint64_t began_ns;
	uint64_t ended_ns;
	/* Virtual CPUs, or threads of the cgroup, that were runnable and did not run, in thousandths, in the mean
	 * over the window by time. */
	uint32_t phantoms_milli;
	/* CPUs of the host that had nothing to do, of those that the machine may use: likewise. */
	uint32_t idle_cpus_milli;
	/* How many virtual CPUs there are; 0 for a cgroup. */
	uint32_t vcpus;
	/* How many CPUs of the host it may use. */
	uint32_t cpus;
	/* CPUs that others hold beyond their fair shares of the host and that are owed to it, which has less
	 * than its own: in thousandths, likewise. Idle ones come first and are not among them. 0 if the host
	 * tells none. */
	uint32_t owed_cpus_milli;
	/* CPUs that it holds beyond its own fair share, as far as threads of those wait to whom they are
	 * owed: likewise. */
	uint32_t owing_cpus_milli;
	/* 0. */
	uint8_t reserved[METASCHED_PARAVIRT_BYTES - 72];
};

#endif
