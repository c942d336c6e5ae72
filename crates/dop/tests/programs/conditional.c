// SPDX-License-Identifier: GPL-2.0-only
// Runs a region with an `if` for each line of its input, and prints how many threads that had: the
// line says whether it is true.
#include <omp.h>
#include <stdio.h>

static int threads;

static void region(int yes)
{
#pragma omp parallel if (yes)
	if (omp_get_thread_num() == 0)
		threads = omp_get_num_threads();
}

// One within another, which is the thread's next one.
static void nested(void)
{
#pragma omp parallel if (threads >= 0)
	if (omp_get_thread_num() == 0)
		region(1);
}

int main(void)
{
	char line[100];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'n')
			nested();
		else
			region(line[0] == 'y');
		printf("%d\n", threads);
	}
	return 0;
}
