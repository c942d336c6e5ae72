// SPDX-License-Identifier: GPL-2.0-only
// Runs a parallel region for each line of its input and prints how many threads that had. What is
// reckoned there is checked.
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 1000

static int items[N];

static void check(const char *kind, long sum, long expected)
{
	if (sum != expected) {
		printf("%s: %ld, and not %ld\n", kind, sum, expected);
		exit(1);
	}
}

#define LOOP(name, how)                                                           \
	static int name(void)                                                     \
	{                                                                         \
		int threads = 0;                                                  \
		memset(items, 0, sizeof(items));                                  \
		_Pragma(how) for (int i = 0; i < N; i++)                          \
		{                                                                 \
			items[i] += i;                                            \
			if (i == 0)                                               \
				threads = omp_get_num_threads();                  \
		}                                                                 \
		long sum = 0;                                                     \
		for (int i = 0; i < N; i++)                                       \
			sum += items[i];                                          \
		check(#name, sum, (long)N * (N - 1) / 2);                         \
		return threads;                                                   \
	}

LOOP(for_static, "omp parallel for schedule(static, 3)")
LOOP(for_dynamic, "omp parallel for schedule(monotonic:dynamic)")
LOOP(for_guided, "omp parallel for schedule(monotonic:guided)")
LOOP(for_runtime, "omp parallel for schedule(monotonic:runtime)")
LOOP(for_nonmonotonic_dynamic, "omp parallel for schedule(nonmonotonic:dynamic)")
LOOP(for_nonmonotonic_guided, "omp parallel for schedule(nonmonotonic:guided)")
LOOP(for_nonmonotonic_runtime, "omp parallel for schedule(nonmonotonic:runtime)")
LOOP(for_maybe_nonmonotonic_runtime, "omp parallel for schedule(runtime)")

static int plain(void)
{
	int threads = 0;
	long sum = 0;
#pragma omp parallel reduction(+ : sum)
	{
#pragma omp single
		threads = omp_get_num_threads();
		sum += omp_get_thread_num();
	}
	check("plain", sum, (long)threads * (threads - 1) / 2);
	return threads;
}

static int with_clause(void)
{
	int threads = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
	threads = omp_get_num_threads();
	return threads;
}

// An `if` that is false, whose clause is no other region's.
static int with_if(volatile int yes)
{
	int threads = 0;
#pragma omp parallel num_threads(4) if (yes)
#pragma omp single
	threads = omp_get_num_threads();
	return threads;
}

static int sections(void)
{
	int threads = 0, one = 0, two = 0;
#pragma omp parallel sections
	{
#pragma omp section
		{
			one = 1;
			threads = omp_get_num_threads();
		}
#pragma omp section
		two = 2;
	}
	check("sections", one + two, 3);
	return threads;
}

static int task_reduction(void)
{
	int threads = 0;
	long sum = 0;
#pragma omp parallel reduction(task, + : sum)
	{
#pragma omp single
		{
			threads = omp_get_num_threads();
			for (int i = 0; i < N; i++) {
#pragma omp task in_reduction(+ : sum)
				sum += i;
			}
		}
	}
	check("task_reduction", sum, (long)N * (N - 1) / 2);
	return threads;
}

static int tasks(void)
{
	int threads = 0;
	memset(items, 0, sizeof(items));
#pragma omp parallel
#pragma omp single
	{
		threads = omp_get_num_threads();
		for (int i = 0; i < N; i++) {
#pragma omp task firstprivate(i)
			items[i] = i;
		}
	}
	long sum = 0;
	for (int i = 0; i < N; i++)
		sum += items[i];
	check("tasks", sum, (long)N * (N - 1) / 2);
	return threads;
}

// How many threads the region within a region has.
static int nested(void)
{
	int threads = 0;
	omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
	{
#pragma omp parallel
#pragma omp single
		{
#pragma omp critical
			threads = omp_get_num_threads();
		}
	}
	omp_set_max_active_levels(1);
	return threads;
}

// How many threads a region has that is within one of a single thread.
static int within_one(volatile int yes)
{
	int threads = 0;
#pragma omp parallel if (yes)
	{
#pragma omp parallel
#pragma omp single
		threads = omp_get_num_threads();
	}
	return threads;
}

static void *in_thread(void *result)
{
	*(int *)result = plain();
	return NULL;
}

static int other_thread(void)
{
	pthread_t thread;
	int threads = 0;
	if (pthread_create(&thread, NULL, in_thread, &threads) != 0)
		exit(1);
	pthread_join(thread, NULL);
	return threads;
}

// A child runs regions until the host has told it something.
static int in_child(void)
{
	int status;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 1000; i++) {
			int threads = plain();
			if (threads < omp_get_max_threads())
				exit(threads);
			usleep(5000);
		}
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		exit(1);
	return WEXITSTATUS(status);
}

// The number of a file that takes the place of standard error.
static int own_file(void)
{
	close(2);
	return open("own", O_CREAT | O_WRONLY, 0600);
}

// So many regions, each checked; the last one's threads.
static int many(int count)
{
	int threads = 0;
	for (int i = 0; i < count; i++) {
		threads = for_dynamic();
		threads = plain();
	}
	return threads;
}

int main(void)
{
	char line[100];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
#define KIND(name)                                                                \
	else if (strcmp(line, #name) == 0) printf("%d\n", name())
		if (strcmp(line, "with_false_if") == 0)
			printf("%d\n", with_if(0));
		else if (strcmp(line, "within_one") == 0)
			printf("%d\n", within_one(0));
		else if (strcmp(line, "many") == 0)
			printf("%d\n", many(1000));
		else if (strcmp(line, "max_threads") == 0)
			printf("%d\n", omp_get_max_threads());
		KIND(plain);
		KIND(with_clause);
		KIND(sections);
		KIND(task_reduction);
		KIND(tasks);
		KIND(nested);
		KIND(other_thread);
		KIND(in_child);
		KIND(own_file);
		KIND(for_static);
		KIND(for_dynamic);
		KIND(for_guided);
		KIND(for_runtime);
		KIND(for_nonmonotonic_dynamic);
		KIND(for_nonmonotonic_guided);
		KIND(for_nonmonotonic_runtime);
		KIND(for_maybe_nonmonotonic_runtime);
		else printf("there is no %s\n", line);
	}
	return 0;
}
