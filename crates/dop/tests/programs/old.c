// SPDX-License-Identifier: GPL-2.0-only
// Starts regions as code of older GCCs does, and prints how many threads each had.
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

void GOMP_parallel_start(void (*)(void *), void *, unsigned);
void GOMP_parallel_sections_start(void (*)(void *), void *, unsigned, unsigned);
void GOMP_parallel_loop_static_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_dynamic_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_guided_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_loop_runtime_start(void (*)(void *), void *, unsigned, long, long, long);
void GOMP_parallel_loop_static(void (*)(void *), void *, unsigned, long, long, long, long,
			       unsigned);
void GOMP_parallel_end(void);
void GOMP_sections_end_nowait(void);
unsigned GOMP_sections_next(void);
bool GOMP_loop_static_next(long *, long *);
bool GOMP_loop_dynamic_next(long *, long *);
bool GOMP_loop_guided_next(long *, long *);
bool GOMP_loop_runtime_next(long *, long *);
void GOMP_loop_end_nowait(void);

static int threads;
static long sum;

static void plain(void *data)
{
	if (omp_get_thread_num() == 0)
		threads = omp_get_num_threads();
}

static void add(long from, long to)
{
	for (; from < to; from++)
		__atomic_fetch_add(&sum, from, __ATOMIC_RELAXED);
}

#define LOOP(how)                                                                 \
	static void loop_##how(void *data)                                        \
	{                                                                         \
		long from, to;                                                    \
		plain(data);                                                      \
		while (GOMP_loop_##how##_next(&from, &to))                        \
			add(from, to);                                            \
		GOMP_loop_end_nowait();                                           \
	}
LOOP(static)
LOOP(dynamic)
LOOP(guided)
LOOP(runtime)

static void sections(void *data)
{
	unsigned section;
	plain(data);
	while ((section = GOMP_sections_next()) != 0)
		add(section, section + 1);
	GOMP_sections_end_nowait();
}

static void told(const char *kind, long expected)
{
	printf("%s %d %s\n", kind, threads, sum == expected ? "right" : "wrong");
	sum = 0;
}

// Before GCC 4.9 the caller runs the body itself.
static void ended(const char *kind, void (*body)(void *), long expected)
{
	body(NULL);
	GOMP_parallel_end();
	told(kind, expected);
}

int main(void)
{
	char c;
	puts("ready");
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		return 1;
	GOMP_parallel_start(plain, NULL, 0);
	ended("plain", plain, 0);
	GOMP_parallel_sections_start(sections, NULL, 0, 3);
	ended("sections", sections, 6);
	GOMP_parallel_loop_static_start(loop_static, NULL, 0, 0, 100, 1, 0);
	ended("static", loop_static, 4950);
	GOMP_parallel_loop_dynamic_start(loop_dynamic, NULL, 0, 0, 100, 1, 1);
	ended("dynamic", loop_dynamic, 4950);
	GOMP_parallel_loop_guided_start(loop_guided, NULL, 0, 0, 100, 1, 1);
	ended("guided", loop_guided, 4950);
	GOMP_parallel_loop_runtime_start(loop_runtime, NULL, 0, 0, 100, 1);
	ended("runtime", loop_runtime, 4950);
	// Since then it does not. Newer compilers divide static loops themselves.
	GOMP_parallel_loop_static(loop_static, NULL, 0, 0, 100, 1, 0, 0);
	told("static_since", 4950);
	return 0;
}
