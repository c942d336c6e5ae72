/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A running average that halves what is past each half-life:
 *
 *	average(now) = value + (average(then) - value) * 2^-((now - then) / half_life)
 *
 * where @value is what held in between. By one caller at a time.
 */
#ifndef METASCHED_RAVG_BPF_H
#define METASCHED_RAVG_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/* Averages have so many bits behind the point. */
#define RAVG_BITS 16
#define RAVG_ONE (1ULL << RAVG_BITS)

/* @x after @ns: whole half-lives are shifts, and within one 2^-f is near 1 - f * (0.656 - 0.156 f). */
static __always_inline u64 ravg_decayed(u64 x, u64 ns, u64 half_life_ns)
{
	u64 halves = ns / half_life_ns, f, factor;

	if (halves >= 64)
		return 0;
	x >>= halves;
	f = (ns % half_life_ns) * RAVG_ONE / half_life_ns;
	factor = RAVG_ONE - f * (42992 - f * 10224 / RAVG_ONE) / RAVG_ONE;
	return x * factor / RAVG_ONE;
}

/* The average, both in RAVG_ONE, when @value held for @ns. */
static __always_inline u64 ravg_after(u64 average, u64 value, u64 ns, u64 half_life_ns)
{
	if (average >= value)
		return value + ravg_decayed(average - value, ns, half_life_ns);
	return value - ravg_decayed(value - average, ns, half_life_ns);
}

#endif
