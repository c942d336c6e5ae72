/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * follower PAGE: parallel regions for ever, in a machine whose host writes PAGE, from when it does. Each second it
 * prints how many threads regions had in the mean, and which windows it has seen in the page meanwhile.
 */
#include <fcntl.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <metasched_paravirt.h>

/* How long the threads of a region compute. */
#define REGION_NS 20000000ULL
#define PRINTED_EACH_NS 1000000000ULL
#define LOOK_EACH_US 20000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	const volatile struct metasched_paravirt_page *page;
	uint64_t began_ns, first;
	unsigned long regions = 0, threads = 0;
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	page = mmap(NULL, METASCHED_PARAVIRT_BYTES, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED) {
		perror("follower: there is no page");
		return 1;
	}
	while (page->magic != METASCHED_PARAVIRT_MAGIC)
		usleep(LOOK_EACH_US);
	began_ns = now_ns();
	first = page->windows;
	for (;;) {
#pragma omp parallel
		{
			uint64_t end_ns = now_ns() + REGION_NS;

#pragma omp single nowait
			threads += omp_get_num_threads();
			while (now_ns() < end_ns)
				;
		}
		regions++;
		if (now_ns() - began_ns < PRINTED_EACH_NS)
			continue;
		printf("follower: %.3f threads, windows %llu to %llu\n", (double)threads / regions,
		       (unsigned long long)first, (unsigned long long)page->windows);
		fflush(stdout);
		began_ns = now_ns();
		first = page->windows;
		regions = threads = 0;
	}
}
