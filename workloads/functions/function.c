/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * function CGROUP DURATION_S LOOP SLEEP_US KIB WIDTH SEED [SAMPLE]...: one function of a serverless platform.
 *
 * It enters the cgroup, says "ready", and reads from its input at which time of CLOCK_MONOTONIC, in ns, it
 * is to begin. There is a sample for each second: how many calls are under way in it. A call sleeps and
 * then hashes, split among WIDTH threads; both are normally distributed about SLEEP_US and KIB.
 *
 * LOOP closed: a call that ends is followed by the next one. LOOP open: calls come at random, so many in a
 * second as there would be if each took LATENCY_AIMED_AT_NS, and the latency counts from when they come. One
 * that no thread has taken within TIMELY_NS is given up.
 *
 * At the end it prints one line for each latency that calls had: the latency in us, rounded down to three
 * digits, and how many calls had it. A call that goes on at the end counts if it is too late already.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ULL
#define LATENCY_AIMED_AT_NS (SECOND_NS / 10)
#define TIMELY_NS SECOND_NS
#define THREADS_MAX 4096
#define KIB_MAX (1 << 20)
/* Standard deviations, as parts of the mean: those that the published experiment sets for rd-hashd. */
#define SLEEP_SPREAD 0.33
#define BYTES_SPREAD 0.45
/* Latencies below 1000 us are counted one by one, those above by their first three digits. */
#define EXACT 1000
#define DIGITS 900
#define LATENCIES (EXACT + 7 * DIGITS)

static uint64_t start_ns, end_ns, sleep_ns, bytes;
static unsigned int width, *samples;
static int is_open;
/* Opens when it is known when to start. */
static pthread_barrier_t go;
/* What all threads hash: twice the mean, which is the most that a call hashes. */
static uint8_t *memory;

/* The threads that share the hashing of a call; the first of them has the calls, and sleeps as well. */
struct team {
	pthread_barrier_t begin, end;
	unsigned int number;
	uint64_t random, bytes;
	uint32_t *counts;
	int over;
};

struct member {
	struct team *team;
	unsigned int place;
	uint64_t sum;
};

/* When the next call comes, in an open loop. */
static struct {
	pthread_mutex_t lock;
	uint64_t at_ns, random;
} arrivals = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void fail(const char *attempt, const char *cause)
{
	fprintf(stderr, "cannot %s: %s; see whether the parameters fit this machine\n", attempt, cause);
	exit(1);
}

static void *room_for(size_t count, size_t size)
{
	void *room = calloc(count, size);

	if (!room)
		fail("get memory", strerror(errno));
	return room;
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

/* Above 0, at most 1. */
static double uniform(uint64_t *state)
{
	return ((next_random(state) >> 11) + 1) / 9007199254740992.0;
}

static uint64_t exponential(uint64_t *state, double mean)
{
	return -log(uniform(state)) * mean;
}

/* Normally distributed, but from 0 to twice the mean. A sum of twelve is close enough to normal. */
static uint64_t normal(uint64_t *state, uint64_t mean, double spread)
{
	double sum = -6, value;
	int i;

	for (i = 0; i < 12; i++)
		sum += uniform(state);
	value = mean * (1 + spread * sum);
	if (value < 0)
		return 0;
	return value > 2.0 * mean ? 2 * mean : value;
}

/* The member's part of what the call hashes: FNV-1a (Fowler, Noll and Vo). */
static void hash(struct member *m)
{
	uint64_t all = m->team->bytes, sum = 0xcbf29ce484222325ULL;
	uint8_t *next = memory + all * m->place / width;
	uint8_t *end = memory + all * (m->place + 1) / width;

	while (next < end)
		sum = (sum ^ *next++) * 0x100000001b3ULL;
	m->sum ^= sum;
}

static void *helper(void *arg)
{
	struct member *m = arg;

	for (;;) {
		pthread_barrier_wait(&m->team->begin);
		if (m->team->over)
			return NULL;
		hash(m);
		pthread_barrier_wait(&m->team->end);
	}
}

static void record(struct team *team, uint64_t latency_us)
{
	unsigned int place = latency_us;

	if (latency_us >= EXACT) {
		for (place = DIGITS; latency_us >= 10 * EXACT; place += DIGITS)
			latency_us /= 10;
		place += latency_us / 10;
	}
	team->counts[place < LATENCIES ? place : LATENCIES - 1]++;
}

/* What record() counts at this place. */
static uint64_t latency_us(unsigned int place)
{
	uint64_t us = place, unit = 1;

	while (us >= EXACT) {
		us -= DIGITS;
		unit *= 10;
	}
	return us * unit;
}

/* Makes the call that came at this time. */
static void call(struct member *m, uint64_t came_ns)
{
	struct team *team = m->team;
	uint64_t ended_ns;

	team->bytes = normal(&team->random, bytes, BYTES_SPREAD);
	sleep_until(now_ns() + normal(&team->random, sleep_ns, SLEEP_SPREAD));
	if (width > 1)
		pthread_barrier_wait(&team->begin);
	hash(m);
	if (width > 1)
		pthread_barrier_wait(&team->end);
	ended_ns = now_ns();
	if (ended_ns <= end_ns)
		record(team, (ended_ns - came_ns) / 1000);
	else if (came_ns + TIMELY_NS <= end_ns)
		record(team, (end_ns - came_ns) / 1000);
}

/* Has calls in those seconds whose samples are higher than the team's number. */
static void closed_loop(struct member *m)
{
	uint64_t now, second;

	while ((now = now_ns()) < end_ns) {
		second = (now - start_ns) / SECOND_NS;
		if (samples[second] > m->team->number)
			call(m, now);
		else
			sleep_until(start_ns + (second + 1) * SECOND_NS);
	}
}

/* When the next call comes; the end if none does. */
static uint64_t next_arrival(void)
{
	uint64_t second, next_second_ns, after_ns, at_ns;

	pthread_mutex_lock(&arrivals.lock);
	at_ns = arrivals.at_ns;
	while (at_ns < end_ns) {
		second = (at_ns - start_ns) / SECOND_NS;
		next_second_ns = start_ns + (second + 1) * SECOND_NS;
		after_ns = ~0ULL >> 1;
		if (samples[second])
			after_ns = exponential(&arrivals.random,
					       (double)LATENCY_AIMED_AT_NS / samples[second]);
		if (at_ns + after_ns < next_second_ns) {
			at_ns += after_ns;
			break;
		}
		/* What comes later does so at the rate of the next second. */
		at_ns = next_second_ns;
	}
	arrivals.at_ns = at_ns;
	pthread_mutex_unlock(&arrivals.lock);
	return at_ns;
}

static void open_loop(struct member *m)
{
	uint64_t came_ns, now;

	while ((came_ns = next_arrival()) < end_ns) {
		sleep_until(came_ns);
		now = now_ns();
		if (now >= end_ns)
			now = end_ns;
		if (now - came_ns >= TIMELY_NS)
			record(m->team, (now - came_ns) / 1000);
		else if (now < end_ns)
			call(m, came_ns);
	}
}

static void *caller(void *arg)
{
	struct member *m = arg;

	pthread_barrier_wait(&go);
	sleep_until(start_ns);
	if (is_open)
		open_loop(m);
	else
		closed_loop(m);
	m->team->over = 1;
	if (width > 1)
		pthread_barrier_wait(&m->team->begin);
	return NULL;
}

static pthread_t start(void *(*run)(void *), struct team *team, unsigned int place)
{
	struct member *m = room_for(1, sizeof(*m));
	pthread_attr_t small;
	pthread_t thread;
	int error;

	m->team = team;
	m->place = place;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	error = pthread_create(&thread, &small, run, m);
	if (error)
		fail("start a thread", strerror(error));
	return thread;
}

static void print(struct team *teams, unsigned int count)
{
	unsigned int place, i;
	uint64_t sum;

	for (place = 0; place < LATENCIES; place++) {
		for (sum = 0, i = 0; i < count; i++)
			sum += teams[i].counts[place];
		if (sum)
			printf("%" PRIu64 " %" PRIu64 "\n", latency_us(place), sum);
	}
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < least || value > most)
		fail("use a number that it is given", text);
	return value;
}

static void enter(const char *cgroup)
{
	char path[4096];
	int file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1)
		fail(path, strerror(errno));
	close(file);
}

/* As many callers as there can be calls at a time. */
static unsigned int callers_for(unsigned int most)
{
	uint64_t callers = most;

	if (is_open)
		callers *= TIMELY_NS / LATENCY_AIMED_AT_NS;
	return callers < THREADS_MAX ? callers : THREADS_MAX;
}

static void start_team(struct team *team, unsigned int place, uint64_t seed)
{
	unsigned int i;

	team->number = place;
	/* Streams of nearby seeds are apart; 0 is the one state that xorshift never leaves. */
	team->random = (seed + place) * 0x9e3779b97f4a7c15ULL | 1;
	next_random(&team->random);
	team->counts = room_for(LATENCIES, sizeof(*team->counts));
	pthread_barrier_init(&team->begin, NULL, width);
	pthread_barrier_init(&team->end, NULL, width);
	for (i = 1; i < width; i++)
		start(helper, team, i);
}

int main(int argc, char **argv)
{
	unsigned int i, seconds, most = 0, callers;
	double duration_s;
	pthread_t *threads;
	struct team *teams;
	uint64_t seed;

	if (argc < 8)
		fail("start a function", "it has too few arguments");
	enter(argv[1]);
	duration_s = atof(argv[2]);
	is_open = !strcmp(argv[3], "open");
	sleep_ns = number(argv[4], 0, 60 * 1000 * 1000) * 1000;
	bytes = number(argv[5], 1, KIB_MAX) * 1024;
	width = number(argv[6], 1, THREADS_MAX);
	seed = number(argv[7], 0, ~0ULL);
	seconds = argc - 8;
	if (!(duration_s > 0) || duration_s > seconds)
		fail("run for so many seconds", argv[2]);
	samples = room_for(seconds, sizeof(*samples));
	for (i = 0; i < seconds; i++) {
		samples[i] = number(argv[8 + i], 0, THREADS_MAX);
		if (samples[i] > most)
			most = samples[i];
	}
	callers = callers_for(most);
	/* Written once, so that its pages are there. */
	memory = room_for(2, bytes);
	memset(memory, 0x5a, 2 * bytes);
	teams = room_for(callers + 1, sizeof(*teams));
	threads = room_for(callers + 1, sizeof(*threads));
	pthread_barrier_init(&go, NULL, callers + 1);
	for (i = 0; i < callers; i++) {
		start_team(&teams[i], i, seed);
		threads[i] = start(caller, &teams[i], 0);
	}
	puts("ready");
	fflush(stdout);
	if (scanf("%" SCNu64, &start_ns) != 1)
		fail("start a function", "nobody says when");
	end_ns = start_ns + (uint64_t)(duration_s * SECOND_NS);
	arrivals.at_ns = start_ns;
	arrivals.random = seed | 1;
	pthread_barrier_wait(&go);
	for (i = 0; i < callers; i++)
		pthread_join(threads[i], NULL);
	print(teams, callers);
	return 0;
}
