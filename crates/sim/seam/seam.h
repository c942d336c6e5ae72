/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every kernel call that is modelled. seam.c defines each by passing it to the
 * engine. What is declared elsewhere and missing here does not link.
 */
#ifndef METASCHED_SEAM_H
#define METASCHED_SEAM_H

#include <vmlinux.h>

/* Dispatch queues. */
bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
			      u64 enq_flags);
bool scx_bpf_dsq_move_to_local(u64 dsq_id);
s32 scx_bpf_dsq_nr_queued(u64 dsq_id);
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);
void scx_bpf_destroy_dsq(u64 dsq_id);
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id);
void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags);
/* libbpf drops what follows the three underscores. */
#define scx_bpf_dsq_reenq___since71 scx_bpf_dsq_reenq

/* The tasks that stand in a queue when the iteration begins. */
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);
void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
		      u64 enq_flags);
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags);

/* CPUs. */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   const struct cpumask *cpus_allowed, u64 flags);
const struct cpumask *scx_bpf_get_idle_cpumask(void);
const struct cpumask *scx_bpf_get_idle_smtmask(void);
void scx_bpf_put_idle_cpumask(const struct cpumask *mask);
const struct cpumask *scx_bpf_get_online_cpumask(void);
void scx_bpf_put_cpumask(const struct cpumask *mask);
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags);
s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
u32 scx_bpf_nr_cpu_ids(void);
struct task_struct *scx_bpf_cpu_curr(s32 cpu);
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
bool bpf_cpumask_subset(const struct cpumask *set, const struct cpumask *of);
u32 bpf_get_smp_processor_id(void);

/* Tasks. */
s32 scx_bpf_task_cpu(const struct task_struct *p);
bool scx_bpf_task_running(const struct task_struct *p);
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);
struct task_struct *bpf_get_current_task_btf(void);
struct task_struct *bpf_task_from_pid(s32 pid);
struct task_struct *bpf_task_acquire(struct task_struct *p);
void bpf_task_release(struct task_struct *p);

/* Time and chance: the engine's. */
u64 scx_bpf_now(void);
u64 bpf_ktime_get_ns(void);
u32 bpf_get_prandom_u32(void);

/* Timers, each first in its map's value; the callback has a type of its own in each program. */
long seam_timer_init(struct bpf_timer *timer, void *map, u64 clock);
long seam_timer_set_callback(struct bpf_timer *timer, void *callback);
#define bpf_timer_init(timer, map, clock) seam_timer_init(timer, (void *)(map), clock)
#define bpf_timer_set_callback(timer, fn) seam_timer_set_callback(timer, (void *)(fn))
long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
long bpf_timer_cancel(struct bpf_timer *timer);

/* The registers that a task had in user space; elsewhere a helper. */
#define bpf_task_pt_regs(p) (&(p)->regs)

/* RCU is a matter of context alone: nothing runs beside a callback here. */
static inline void bpf_rcu_read_lock(void) {}
static inline void bpf_rcu_read_unlock(void) {}

/* Ends the run, as it ends the scheduler in the kernel. */
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz);

/* Copies a string; the source is always readable here. */
long bpf_probe_read_kernel_str(void *dst, u32 size, const void *src);
long bpf_probe_read_kernel(void *dst, u32 size, const void *src);

/*
 * Maps. The sizes come from the map's own type, so these are macros and must be
 * given the map itself. What a macro cannot find in the type fails the build.
 */
void *seam_map_lookup(void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		      const void *key, s32 cpu);
long seam_map_update(void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		     const void *key, const void *value, u64 flags);
long seam_map_delete(void *map, u32 type, u32 key_size, const void *key);
void *seam_task_storage(void *map, u32 value_size, struct task_struct *p, u64 flags);
long seam_task_storage_delete(void *map, struct task_struct *p);
long seam_ringbuf_output(void *map, u32 size, const void *data, u64 bytes);

#define SEAM_MAP_TYPE(map) (sizeof(*(map)->type) / sizeof(int))
#define SEAM_MAP_KEY_SIZE(map) sizeof(*(map)->key)
#define SEAM_MAP_SIZES(map)                                                          \
	SEAM_MAP_TYPE(map), sizeof(*(map)->max_entries) / sizeof(int),               \
		sizeof(*(map)->key), sizeof(*(map)->value)

#define bpf_map_lookup_elem(map, key)                                                \
	seam_map_lookup((void *)(map), SEAM_MAP_SIZES(map), key, -1)
#define bpf_map_lookup_percpu_elem(map, key, cpu)                                    \
	seam_map_lookup((void *)(map), SEAM_MAP_SIZES(map), key, cpu)
#define bpf_map_update_elem(map, key, value, flags)                                  \
	seam_map_update((void *)(map), SEAM_MAP_SIZES(map), key, value, flags)
#define bpf_map_delete_elem(map, key)                                                \
	seam_map_delete((void *)(map), SEAM_MAP_TYPE(map), SEAM_MAP_KEY_SIZE(map), key)
#define bpf_task_storage_get(map, p, init, flags)                                    \
	seam_task_storage((void *)(map), sizeof(*(map)->value), p, flags)
#define bpf_task_storage_delete(map, p) seam_task_storage_delete((void *)(map), p)
/* Whoever reads is always told, as without flags. */
#define bpf_ringbuf_output(map, data, bytes, flags)                                  \
	seam_ringbuf_output((void *)(map), sizeof(*(map)->max_entries) / sizeof(int), data, bytes)

#endif
