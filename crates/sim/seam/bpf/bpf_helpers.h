/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libbpf's bpf_helpers.h, for a native build. Helpers that are modelled are
 * declared in seam.h and defined in seam.c; a helper that is not modelled is
 * not declared, so that its use fails the build by name.
 */
#ifndef __BPF_HELPERS__
#define __BPF_HELPERS__

#include <seam.h>

#define SEC(name)
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]

#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __hidden
#define __ksym
#define __kconfig
#define __kptr
#define __arg_trusted
#define __arg_nonnull
#define __arg_nullable
#define __arg_ctx

/*
 * Weak in BPF means "may be missing in this kernel". The modelled kernel has
 * one version, and what it lacks must fail the link, so nothing is weak here.
 */
#define __weak

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#endif

#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(var) __asm__ volatile("" : "+r"(var))

#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)
#define bpf_for_each(type, cur, args...)                                             \
	for (struct bpf_iter_##type ___it                                            \
		     __attribute__((cleanup(bpf_iter_##type##_destroy))),            \
	     *___start = (bpf_iter_##type##_new(&___it, args), &___it);              \
	     (void)___start, ((cur) = bpf_iter_##type##_next(&___it));)
#define bpf_repeat(n) for (int __times = (n); __times > 0; __times--)
#define can_loop true
/* What links is there: see above. */
#define bpf_ksym_exists(symbol) true

/* How many arguments, and the arguments as an array of 64 bits each. */
#define ___bpf_nth(_, _1, _2, _3, _4, _5, _6, _7, _8, _9, _a, _b, _c, N, ...) N
#define ___bpf_narg(...) \
	___bpf_nth(_, ##__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ___bpf_concat(a, b) a##b
#define ___bpf_apply(fn, n) ___bpf_concat(fn, n)
#define ___bpf_fill0(arr, p, x) do {} while (0)
#define ___bpf_fill1(arr, p, x) arr[p] = (unsigned long long)(x)
#define ___bpf_fill2(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill1(arr, p + 1, args)
#define ___bpf_fill3(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill2(arr, p + 1, args)
#define ___bpf_fill4(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill3(arr, p + 1, args)
#define ___bpf_fill5(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill4(arr, p + 1, args)
#define ___bpf_fill6(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill5(arr, p + 1, args)
#define ___bpf_fill7(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill6(arr, p + 1, args)
#define ___bpf_fill8(arr, p, x, args...) arr[p] = (unsigned long long)(x); ___bpf_fill7(arr, p + 1, args)
#define ___bpf_fill(arr, args...) \
	___bpf_apply(___bpf_fill, ___bpf_narg(args))(arr, 0, args)

#endif
