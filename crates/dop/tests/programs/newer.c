// SPDX-License-Identifier: GPL-2.0-only
// What compilers call since LLVM 21 for a clause that has several numbers or wants them exactly.
// The runtime here may be older, so this is one that says what it was told for the next region.
#include <stdio.h>
#include <string.h>

static int pushed;

int omp_get_max_threads(void) { return 8; }
int omp_get_active_level(void) { return 0; }
int omp_get_thread_limit(void) { return 64; }
int __kmpc_global_thread_num(void *place) { return 0; }

void __kmpc_push_num_threads(void *place, int thread, int threads)
{
	pushed = threads;
}

void __kmpc_push_num_threads_strict(void *place, int thread, int threads, int severity,
				    const char *message)
{
	pushed = threads + severity + strlen(message);
}

void __kmpc_push_num_threads_list(void *place, int thread, unsigned count, int *threads)
{
	pushed = threads[count - 1];
}

void __kmpc_push_num_threads_list_strict(void *place, int thread, unsigned count, int *threads,
					 int severity, const char *message)
{
	pushed = threads[count - 1] + severity + strlen(message);
}

void __kmpc_fork_call(void *place, int count, void (*body)(int *, int *, ...), ...)
{
	__builtin_va_list arguments;
	__builtin_va_start(arguments, body);
	long sum = 0;
	for (int i = 0; i < count; i++)
		sum += (long)__builtin_va_arg(arguments, void *);
	__builtin_va_end(arguments);
	printf("%d %ld\n", pushed, sum);
	pushed = 0;
}

// This call comes to who stands before it, too: so may that of a runtime that was built otherwise.
void __kmpc_fork_call_if(void *place, int count, void (*body)(int *, int *, ...), int yes,
			 void *data)
{
	if (yes)
		__kmpc_fork_call(place, count, body, data);
}
