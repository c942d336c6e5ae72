// SPDX-License-Identifier: GPL-2.0-only
// Calls what newer.c has, with clauses by its input and more arguments than fit into registers.
#include <stdio.h>

int __kmpc_global_thread_num(void *);
void __kmpc_push_num_threads(void *, int, int);
void __kmpc_push_num_threads_strict(void *, int, int, int, const char *);
void __kmpc_push_num_threads_list(void *, int, unsigned, int *);
void __kmpc_push_num_threads_list_strict(void *, int, unsigned, int *, int, const char *);
void __kmpc_fork_call(void *, int, void (*)(int *, int *, ...), ...);
void __kmpc_fork_call_if(void *, int, void (*)(int *, int *, ...), int, void *);

static void body(int *thread, int *bound, ...)
{
}

int main(void)
{
	char line[100];
	int numbers[] = {6, 7};
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		switch (line[0]) {
		case 'c':
			__kmpc_push_num_threads(NULL, 0, 7);
			break;
		case 'i':
			__kmpc_push_num_threads(NULL, 0, 7);
			__kmpc_fork_call_if(NULL, 1, body, 1, (void *)55L);
			continue;
		case 's':
			__kmpc_push_num_threads_strict(NULL, 0, 4, 2, "a");
			break;
		case 'l':
			__kmpc_push_num_threads_list(NULL, 0, 2, numbers);
			break;
		case 'b':
			__kmpc_push_num_threads_list_strict(NULL, 0, 2, numbers, -2, "ab");
			break;
		}
		__kmpc_fork_call(NULL, 10, body, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L);
	}
	return 0;
}
