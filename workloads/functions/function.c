/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * function START_NS DURATION_S SLEEP_US KIB WIDTH SEED SAMPLE...: one function of a serverless platform.
 *
 * From START_NS of CLOCK_MONOTONIC on, as many calls are under way in each second as its sample says: a
 * call that ends is followed by the next one. The samples are repeated. A call sleeps for an exponentially
 * distributed time, SLEEP_US in the mean, and then hashes KIB KiB, split among WIDTH threads.
 *
 * At the end it prints one line for each latency that calls had: the latency in us, rounded to three
 * digits, and how many of the calls that ended in time had it.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ULL
#define THREADS_MAX 4096
#define KIB_MAX (1 << 20)

static uint64_t start_ns, end_ns, sleep_us, bytes, seed;
static unsigned int width, samples_count, *samples;

/* The threads that share the hashing of a call; one caller, which sleeps as well. */
struct team {
	pthread_barrier_t begin, end;
	unsigned int number;
	uint64_t random, sum;
	uint64_t *latencies_us;
	size_t count, room;
	int over;
};

struct member {
	struct team *team;
	uint64_t *memory;
};

static void fail(const char *attempt, int error)
{
	fprintf(stderr, "cannot %s: %s; see whether the parameters fit this machine\n", attempt,
		strerror(error));
	exit(1);
}

static void *room_for(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		fail("get memory", errno);
	return memory;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = { .tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* xorshift64* (Vigna, 2016). */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* Exponentially distributed, @mean in the mean. */
static uint64_t exponential(uint64_t *state, uint64_t mean)
{
	double uniform = ((next_random(state) >> 11) + 1) * 0x1p-53;

	return -log(uniform) * mean;
}

/* FNV-1a of words (Fowler, Noll and Vo). */
static uint64_t hash(const uint64_t *words, size_t count)
{
	uint64_t sum = 0xcbf29ce484222325ULL;
	size_t i;

	for (i = 0; i < count; i++)
		sum = (sum ^ words[i]) * 0x100000001b3ULL;
	return sum;
}

static void hash_part(struct member *m)
{
	m->team->sum ^= hash(m->memory, bytes / width / sizeof(*m->memory));
}

static void *helper(void *arg)
{
	struct member *m = arg;

	for (;;) {
		pthread_barrier_wait(&m->team->begin);
		if (m->team->over)
			return NULL;
		hash_part(m);
		pthread_barrier_wait(&m->team->end);
	}
}

static void record(struct team *team, uint64_t latency_us)
{
	if (team->count == team->room) {
		team->room = team->room ? 2 * team->room : 1024;
		team->latencies_us =
			realloc(team->latencies_us, team->room * sizeof(*team->latencies_us));
		if (!team->latencies_us)
			fail("get memory", errno);
	}
	team->latencies_us[team->count++] = latency_us;
}

static void call(struct member *m)
{
	struct team *team = m->team;
	uint64_t began_ns = now_ns(), ended_ns;

	sleep_until(began_ns + exponential(&team->random, sleep_us) * 1000);
	if (width > 1)
		pthread_barrier_wait(&team->begin);
	hash_part(m);
	if (width > 1)
		pthread_barrier_wait(&team->end);
	ended_ns = now_ns();
	if (ended_ns <= end_ns)
		record(team, (ended_ns - began_ns) / 1000);
}

/* The thread has calls in those seconds whose samples are higher than its number. */
static void *caller(void *arg)
{
	struct member *m = arg;
	struct team *team = m->team;
	uint64_t second, now;

	for (;;) {
		now = now_ns();
		if (now >= end_ns)
			break;
		second = (now - start_ns) / SECOND_NS;
		if (samples[second % samples_count] > team->number)
			call(m);
		else
			sleep_until(start_ns + (second + 1) * SECOND_NS);
	}
	team->over = 1;
	if (width > 1)
		pthread_barrier_wait(&team->begin);
	return NULL;
}

static pthread_t start(void *(*run)(void *), struct team *team)
{
	struct member *m = room_for(sizeof(*m));
	size_t size = bytes / width + sizeof(*m->memory);
	pthread_attr_t small;
	pthread_t thread;
	int error;

	m->team = team;
	m->memory = room_for(size);
	/* Written once, so that its pages are there. */
	memset(m->memory, 0x5a, size);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	error = pthread_create(&thread, &small, run, m);
	if (error)
		fail("start a thread", error);
	return thread;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* To three digits. */
static uint64_t rounded(uint64_t us)
{
	uint64_t unit = 1;

	while (us / unit >= 1000)
		unit *= 10;
	return (us + unit / 2) / unit * unit;
}

static void print(struct team *teams, unsigned int count)
{
	uint64_t *all, value;
	size_t n = 0, i, j;

	for (i = 0; i < count; i++)
		n += teams[i].count;
	all = room_for((n + 1) * sizeof(*all));
	for (n = 0, i = 0; i < count; i++) {
		for (j = 0; j < teams[i].count; j++)
			all[n++] = rounded(teams[i].latencies_us[j]);
	}
	qsort(all, n, sizeof(*all), by_value);
	for (i = 0; i < n; i = j) {
		value = all[i];
		for (j = i; j < n && all[j] == value; j++)
			;
		printf("%llu %zu\n", (unsigned long long)value, j - i);
	}
}

static uint64_t number(const char *text, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*text || *end || value > most)
		fail(text, EINVAL);
	return value;
}

int main(int argc, char **argv)
{
	unsigned int i, j, calls = 0;
	pthread_t *callers;
	struct team *teams;

	if (argc < 8)
		fail("start without arguments", EINVAL);
	start_ns = number(argv[1], ~0ULL);
	end_ns = start_ns + (uint64_t)(atof(argv[2]) * SECOND_NS);
	sleep_us = number(argv[3], 60 * 1000 * 1000);
	bytes = number(argv[4], KIB_MAX) * 1024;
	width = number(argv[5], THREADS_MAX);
	seed = number(argv[6], ~0ULL);
	samples_count = argc - 7;
	samples = room_for(samples_count * sizeof(*samples));
	for (i = 0; i < samples_count; i++) {
		samples[i] = number(argv[7 + i], THREADS_MAX);
		if (samples[i] > calls)
			calls = samples[i];
	}
	if (!width)
		fail("share calls among no threads", EINVAL);
	teams = room_for((calls + 1) * sizeof(*teams));
	callers = room_for((calls + 1) * sizeof(*callers));
	for (i = 0; i < calls; i++) {
		teams[i].number = i;
		teams[i].random = (seed + i + 1) * 0x9e3779b97f4a7c15ULL | 1;
		pthread_barrier_init(&teams[i].begin, NULL, width);
		pthread_barrier_init(&teams[i].end, NULL, width);
		for (j = 1; j < width; j++)
			start(helper, &teams[i]);
	}
	sleep_until(start_ns);
	for (i = 0; i < calls; i++)
		callers[i] = start(caller, &teams[i]);
	for (i = 0; i < calls; i++)
		pthread_join(callers[i], NULL);
	print(teams, calls);
	return 0;
}
