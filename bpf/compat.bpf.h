/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels that we run on (7.0 to 7.3), and nothing
 * else. Each entry names the kernel and says when it can go.
 *
 * libbpf drops the last "___suffix" of a kfunc's name before it looks it up, so
 * a kfunc whose own name ends in "___v2" needs one more suffix here.
 *
 * The simulator puts a header of this name in front of this one.
 */
#ifndef METASCHED_COMPAT_BPF_H
#define METASCHED_COMPAT_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/*
 * Since 6.19 the insert returns whether it was accepted and is exported as
 * "scx_bpf_dsq_insert___v2"; the old one without a result is deprecated, and
 * still there in 7.3. This can go when the kernel drops the suffix.
 */
extern bool scx_bpf_dsq_insert___v2___compat(struct task_struct *p, u64 dsq_id, u64 slice,
					     u64 enq_flags) __weak __ksym;

/* Queues @p at the end of @dsq_id for @slice nanoseconds of run time. */
static __always_inline bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice,
					       u64 enq_flags)
{
	return scx_bpf_dsq_insert___v2___compat(p, dsq_id, slice, enq_flags);
}

/*
 * Since 6.19 the vtime insert takes its arguments in a struct, because a kfunc
 * has five at most and 7.1 adds a hidden one; the old one is deprecated, and
 * still there in 7.3. This can go if the kernel ever exports one plain form.
 */
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				       struct scx_bpf_dsq_insert_vtime_args *args) __weak __ksym;

/* Queues @p in @dsq_id by ascending @vtime. A queue cannot mix both orders. */
static __always_inline bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice,
						     u64 vtime, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {
		.dsq_id = dsq_id,
		.slice = slice,
		.vtime = vtime,
		.enq_flags = enq_flags,
	};

	return __scx_bpf_dsq_insert_vtime(p, &args);
}

/*
 * 7.1 adds "scx_bpf_dsq_move_to_local___v2" with enqueue flags, which we do not
 * need; 7.0 has the plain one only. This can go when 7.0 is no longer met, or
 * must when the plain one disappears (it is still there in 7.3).
 */
extern bool scx_bpf_dsq_move_to_local___plain(u64 dsq_id) __weak __ksym;

/*
 * Moves the first task of @dsq_id that may run on this CPU to its local queue;
 * false if there is none.
 */
static __always_inline bool scx_bpf_dsq_move_to_local(u64 dsq_id)
{
	return scx_bpf_dsq_move_to_local___plain(dsq_id);
}

#endif
