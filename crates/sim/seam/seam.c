// SPDX-License-Identifier: GPL-2.0-only
/*
 * Between the policies and the engine: every modelled kernel call goes through
 * the table `seam_host`, which the engine fills in each private copy of this
 * shared object; every callback comes in through seam_call().
 *
 * Native C and BPF differ where C leaves a result undefined. BPF defines
 * x / 0 = 0, x % 0 = x and masks the distance of a shift; the verifier refuses a
 * NULL dereference and an index out of range. A policy that leans on any of it
 * is not worth having, and silently computing something else here would be
 * worse: the sources are compiled with the sanitisers below, whose handlers end
 * the callback at once and fail the run with file and line. What is left to the
 * machine (a pointer that was never written, a deleted value of a map) comes
 * back as a signal, see seam_trap.
 */
#include <vmlinux.h>
#include <seam.h>

#include <bpf/bpf_helpers.h>
#include <setjmp.h>

int snprintf(char *restrict str, size_t size, const char *restrict format, ...);
void *memcpy(void *restrict dst, const void *restrict src, size_t n);

struct seam_host {
	u64 size; /* of this struct, as the engine sees it */
	void *kernel;
	u64 calls; /* made so far */
	void (*fail)(void *k, const char *check, const char *message);
	bool (*insert)(void *k, struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
		       u64 enq_flags, bool by_vtime);
	bool (*move_to_local)(void *k, u64 dsq_id);
	s32 (*nr_queued)(void *k, u64 dsq_id);
	s32 (*create_dsq)(void *k, u64 dsq_id, s32 node);
	void (*destroy_dsq)(void *k, u64 dsq_id);
	struct task_struct *(*peek)(void *k, u64 dsq_id);
	void (*reenq)(void *k, u64 dsq_id, u64 flags);
	int (*iter_new)(void *k, u64 *it, u64 dsq_id, u64 flags);
	struct task_struct *(*iter_next)(void *k, u64 *it);
	void (*iter_destroy)(void *k, u64 *it);
	void (*iter_set)(void *k, u64 *it, bool vtime, u64 value);
	bool (*dsq_move)(void *k, u64 *it, struct task_struct *p, u64 dsq_id, u64 enq_flags,
			 bool by_vtime);
	s32 (*select_cpu_dfl)(void *k, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			      bool *is_idle);
	s32 (*select_cpu_and)(void *k, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			      const struct cpumask *cpus_allowed, u64 flags);
	const struct cpumask *(*idle_mask)(void *k, bool cores);
	const struct cpumask *(*online_mask)(void *k);
	const struct cpumask *(*active_mask)(void *k);
	bool (*test_and_clear_cpu_idle)(void *k, s32 cpu);
	s32 (*pick_cpu)(void *k, const struct cpumask *allowed, u64 flags, bool or_any);
	void (*kick_cpu)(void *k, s32 cpu, u64 flags);
	u32 (*nr_cpu_ids)(void *k);
	struct task_struct *(*cpu_curr)(void *k, s32 cpu);
	u32 (*this_cpu)(void *k);
	s32 (*task_cpu)(void *k, const struct task_struct *p);
	bool (*task_running)(void *k, const struct task_struct *p);
	struct task_struct *(*task_from_pid)(void *k, s32 pid);
	u64 (*now)(void *k);
	u64 (*ktime)(void *k);
	u32 (*random)(void *k);
	void *(*map_lookup)(void *k, void *map, u32 type, u32 max_entries, u32 key_size,
			    u32 value_size, const void *key, s32 cpu);
	long (*map_update)(void *k, void *map, u32 type, u32 max_entries, u32 key_size,
			   u32 value_size, const void *key, const void *value, u64 flags);
	long (*map_delete)(void *k, void *map, u32 type, u32 key_size, const void *key);
	void *(*task_storage)(void *k, void *map, u32 value_size, struct task_struct *p,
			      u64 flags);
	long (*task_storage_delete)(void *k, void *map, struct task_struct *p);
	long (*timer_init)(void *k, void *timer, void *map, u64 clock);
	long (*timer_set_callback)(void *k, void *timer, void *callback);
	long (*timer_start)(void *k, void *timer, u64 ns, u64 flags);
	long (*timer_cancel)(void *k, void *timer);
	s32 (*call_at_return)(void *k, struct task_struct *p, void *work, void *map,
			      void *callback);
	long (*ring_output)(void *k, void *map, u32 size, const void *data, u64 bytes);
	void (*trapped)(void *k, u64 signal, u64 address);
};

struct seam_host seam_host = { .size = sizeof(struct seam_host) };

#define HOST(fn, args...) (seam_host.calls++, seam_host.fn(seam_host.kernel, ##args))

/* What src/abi.rs must agree with, in its order. */
const u64 seam_layout[] = {
	sizeof(struct cpumask),
	sizeof(struct cgroup),
	sizeof(struct task_struct),
	offsetof(struct task_struct, nr_cpus_allowed),
	offsetof(struct task_struct, cpus_ptr),
	offsetof(struct task_struct, se),
	offsetof(struct task_struct, scx),
	offsetof(struct task_struct, sched_info),
	offsetof(struct task_struct, nvcsw),
	offsetof(struct task_struct, cgroups),
	offsetof(struct task_struct, signal),
	offsetof(struct task_struct, pending),
	offsetof(struct task_struct, regs),
	offsetof(struct task_struct, comm),
	sizeof(struct sched_ext_entity),
	sizeof(struct signal_struct),
	offsetof(struct signal_struct, flags),
	sizeof(struct scx_init_task_args),
	sizeof(struct scx_cgroup_init_args),
	sizeof(struct scx_exit_info),
	sizeof(struct sched_ext_ops),
	offsetof(struct sched_ext_ops, dispatch_max_batch),
	offsetof(struct sched_ext_ops, name),
	0,
};

/* Callbacks nest: ops.dequeue is called from within ops.dispatch. */
static jmp_buf *innermost;

u64 seam_call(u64 (*fn)(u64, u64, u64, u64), u64 a, u64 b, u64 c, u64 d)
{
	jmp_buf *outer = innermost;
	jmp_buf here;
	volatile u64 result = 0;

	innermost = &here;
	if (!_setjmp(here))
		result = fn(a, b, c, d);
	innermost = outer;
	return result;
}

/* --- what C leaves undefined ------------------------------------------------ */

struct source_location {
	const char *file;
	u32 line;
	u32 column;
};

/* Leaves the callback. Only C frames lie between here and seam_call(). */
static void __attribute__((noreturn)) undefined(const struct source_location *at, const char *what)
{
	char message[256];

	snprintf(message, sizeof(message), "%s at %s:%u:%u", what, at->file ?: "?", at->line,
		 at->column);
	HOST(fail, "arithmetic", message);
	_longjmp(*innermost, 1);
}

void __ubsan_handle_divrem_overflow(const struct source_location *at, void *lhs, void *rhs)
{
	undefined(at, "division by zero (BPF would give 0)");
}

void __ubsan_handle_shift_out_of_bounds(const struct source_location *at, void *lhs, void *rhs)
{
	undefined(at, "shift by more than the type's width (BPF would mask the distance)");
}

void __ubsan_handle_out_of_bounds(const struct source_location *at, void *index)
{
	undefined(at, "index out of range (the verifier would refuse it)");
}

void __ubsan_handle_type_mismatch_v1(const struct source_location *at, void *pointer)
{
	undefined(at, "NULL dereference (the verifier would refuse it)");
}

void __ubsan_handle_pointer_overflow(const struct source_location *at, void *base, void *result)
{
	undefined(at, "pointer arithmetic out of range (the verifier would refuse it)");
}

/* The bounds of this object's code, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* Mirrored in src/trap.rs, whose handler fills in the signal and goes on in trapped(). */
struct seam_trap {
	const char *from;
	const char *to;
	void (*go)(void);
	u64 signal;
	u64 address;
};

static void trapped(void);

struct seam_trap seam_trap = { .from = __ehdr_start, .to = etext, .go = trapped };

/* The machine objects to an instruction of the callback: it is left. */
static void __attribute__((noreturn)) trapped(void)
{
	u64 signal = seam_trap.signal;

	seam_trap.signal = 0;
	/* What looks at an image between runs is not a callback, and its faults are ours. */
	if (!innermost)
		__builtin_trap();
	HOST(trapped, signal, seam_trap.address);
	_longjmp(*innermost, 1);
}

/* --- kernel calls ------------------------------------------------------------ */

bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	return HOST(insert, p, dsq_id, slice, 0, enq_flags, false);
}

bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
			      u64 enq_flags)
{
	return HOST(insert, p, dsq_id, slice, vtime, enq_flags, true);
}

bool scx_bpf_dsq_move_to_local(u64 dsq_id)
{
	return HOST(move_to_local, dsq_id);
}

s32 scx_bpf_dsq_nr_queued(u64 dsq_id)
{
	return HOST(nr_queued, dsq_id);
}

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)
{
	return HOST(create_dsq, dsq_id, node);
}

void scx_bpf_destroy_dsq(u64 dsq_id)
{
	HOST(destroy_dsq, dsq_id);
}

struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)
{
	return HOST(peek, dsq_id);
}

void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags)
{
	HOST(reenq, dsq_id, reenq_flags);
}

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags)
{
	return HOST(iter_new, &it->handle, dsq_id, flags);
}

struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)
{
	return HOST(iter_next, &it->handle);
}

void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)
{
	HOST(iter_destroy, &it->handle);
}

void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	HOST(iter_set, &it->handle, false, slice);
}

void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	HOST(iter_set, &it->handle, true, vtime);
}

bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	return HOST(dsq_move, &it->handle, p, dsq_id, enq_flags, false);
}

bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags)
{
	return HOST(dsq_move, &it->handle, p, dsq_id, enq_flags, true);
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	return HOST(select_cpu_dfl, p, prev_cpu, wake_flags, is_idle);
}

s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   const struct cpumask *cpus_allowed, u64 flags)
{
	return HOST(select_cpu_and, p, prev_cpu, wake_flags, cpus_allowed, flags);
}

const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	return HOST(idle_mask, false);
}

const struct cpumask *scx_bpf_get_idle_smtmask(void)
{
	return HOST(idle_mask, true);
}

void scx_bpf_put_idle_cpumask(const struct cpumask *mask)
{
}

const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	return HOST(online_mask);
}

bool cpus_of_kernel(u32 word, u64 *online, u64 *active)
{
	*online = ((const u64 *)HOST(online_mask))[word];
	*active = ((const u64 *)HOST(active_mask))[word];
	return true;
}

void scx_bpf_put_cpumask(const struct cpumask *mask)
{
}

bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	return HOST(test_and_clear_cpu_idle, cpu);
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags)
{
	return HOST(pick_cpu, cpus_allowed, flags, false);
}

s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags)
{
	return HOST(pick_cpu, cpus_allowed, flags, true);
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	HOST(kick_cpu, cpu, flags);
}

u32 scx_bpf_nr_cpu_ids(void)
{
	return HOST(nr_cpu_ids);
}

struct task_struct *scx_bpf_cpu_curr(s32 cpu)
{
	return HOST(cpu_curr, cpu);
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SEAM_MAX_CPUS && (mask->bits[cpu / 64] >> (cpu % 64)) & 1;
}

bool bpf_cpumask_subset(const struct cpumask *set, const struct cpumask *of)
{
	for (u32 word = 0; word < SEAM_MAX_CPUS / 64; word++) {
		if (set->bits[word] & ~of->bits[word])
			return false;
	}
	return true;
}

long seam_timer_init(struct bpf_timer *timer, void *map, u64 clock)
{
	return HOST(timer_init, timer, map, clock);
}

long seam_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	return HOST(timer_set_callback, timer, callback);
}

long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	return HOST(timer_start, timer, ns, flags);
}

long bpf_timer_cancel(struct bpf_timer *timer)
{
	return HOST(timer_cancel, timer);
}

int bpf_task_work_schedule_resume(struct task_struct *p, struct bpf_task_work *work, void *map,
				  int (*callback)(struct bpf_map *map, void *key, void *value))
{
	return HOST(call_at_return, p, work, map, callback);
}

u32 bpf_get_smp_processor_id(void)
{
	return HOST(this_cpu);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return HOST(task_cpu, p);
}

bool scx_bpf_task_running(const struct task_struct *p)
{
	return HOST(task_running, p);
}

bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
	return true;
}

bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
	return true;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	s32 cpu = HOST(this_cpu);

	return HOST(cpu_curr, cpu);
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	return HOST(task_from_pid, pid);
}

struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return p;
}

void bpf_task_release(struct task_struct *p)
{
}

u64 scx_bpf_now(void)
{
	return HOST(now);
}

u64 bpf_ktime_get_ns(void)
{
	return HOST(ktime);
}

u32 bpf_get_prandom_u32(void)
{
	return HOST(random);
}

void *seam_map_lookup(void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		      const void *key, s32 cpu)
{
	return HOST(map_lookup, map, type, max_entries, key_size, value_size, key, cpu);
}

long seam_map_update(void *map, u32 type, u32 max_entries, u32 key_size, u32 value_size,
		     const void *key, const void *value, u64 flags)
{
	return HOST(map_update, map, type, max_entries, key_size, value_size, key, value, flags);
}

long seam_map_delete(void *map, u32 type, u32 key_size, const void *key)
{
	return HOST(map_delete, map, type, key_size, key);
}

void *seam_task_storage(void *map, u32 value_size, struct task_struct *p, u64 flags)
{
	return HOST(task_storage, map, value_size, p, flags);
}

long seam_task_storage_delete(void *map, struct task_struct *p)
{
	return HOST(task_storage_delete, map, p);
}

long seam_ringbuf_output(void *map, u32 size, const void *data, u64 bytes)
{
	return HOST(ring_output, map, size, data, bytes);
}

long bpf_probe_read_kernel(void *dst, u32 size, const void *src)
{
	memcpy(dst, src, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *dst, u32 size, const void *src)
{
	return size ? snprintf(dst, size, "%s", (const char *)src) + 1 : 0;
}

/*
 * The kernel's printf of an array of 64-bit arguments: each conversion takes
 * one, whatever its width.
 */
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz)
{
	char message[512];
	u32 used = 0, arg = 0, args = data__sz / 8;

	while (*fmt && used < sizeof(message) - 1) {
		char one[16];
		u32 n = 0;

		if (*fmt != '%' || fmt[1] == '%') {
			fmt += *fmt == '%';
			message[used++] = *fmt++;
			continue;
		}
		/* Flags and digits are kept, lengths are dropped: it is 64 bits. */
		do {
			if (*fmt != 'l' && *fmt != 'h' && n < sizeof(one) - 4)
				one[n++] = *fmt;
		} while (!__builtin_strchr("cdiuxXsp", *fmt++) && *fmt);
		if (one[n - 1] != 's' && one[n - 1] != 'p' && one[n - 1] != 'c') {
			one[n] = one[n - 1];
			one[n - 1] = 'l';
			n++;
		}
		one[n] = 0;
		used += snprintf(message + used, sizeof(message) - used, one,
				 arg < args ? data[arg] : 0);
		arg++;
	}
	message[used < sizeof(message) ? used : sizeof(message) - 1] = 0;
	HOST(fail, "scx_bpf_error", message);
}
