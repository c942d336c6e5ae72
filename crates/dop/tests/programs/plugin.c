// SPDX-License-Identifier: GPL-2.0-only
// A library that has regions of its own.
#include <omp.h>

int region(void)
{
	int threads = 0;
#pragma omp parallel
#pragma omp single
	threads = omp_get_num_threads();
	return threads;
}
