/* SPDX-License-Identifier: GPL-2.0-only */
/* Sets of 64: BPF has no instruction that finds a bit. */
#ifndef METASCHED_BITS_BPF_H
#define METASCHED_BITS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/* Where the lowest bit of a u64 is, by the product of that bit with LOWEST_BIT_KEY. */
#define LOWEST_BIT_KEY 0x0218a392cd3d5dbfULL
const u8 lowest_bit_at[64] = {
	0,  1,	2,  7,	3,  13, 8,  19, 4,  25, 14, 28, 9,  34, 20, 40, 5,  17, 26, 38, 15, 46,
	29, 48, 10, 31, 35, 54, 21, 50, 41, 57, 63, 6,	12, 18, 24, 27, 33, 39, 16, 37, 45, 47,
	30, 53, 49, 56, 62, 11, 23, 32, 36, 44, 52, 55, 61, 22, 43, 51, 60, 42, 59, 58,
};

/* The lowest member of a set that is not empty. */
static __always_inline u32 lowest_bit(u64 set)
{
	u32 number = lowest_bit_at[((set & -set) * LOWEST_BIT_KEY) >> 58];

	/* The compiler knows what the table holds and drops masks; the verifier needs them. */
	barrier_var(number);
	return number;
}

#endif
