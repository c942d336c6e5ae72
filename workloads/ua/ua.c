/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ua CELLS STEPS [SUM]: heat that a moving source brings to an adaptive mesh, in OpenMP.
 *
 * In kind it is what UA of the NAS Parallel Benchmarks is: irregular, with loops over elements whose size
 * changes, and very many barriers. The mesh is CELLS x CELLS elements, which know their neighbours by lists and
 * are numbered at random. An element has 1 to 64 points, more of them where the source is. Each step
 * moves the source, refines or coarsens elements (first loop), and lets heat flow SWEEPS times: through the
 * edges between elements (second loop), then inside of them (third loop). Each sweep is a parallel region of two
 * loops with a barrier after each.
 *
 * What an element computes does not depend on the number of threads, so that the sum of all values is the
 * same to the last bit for any. It is compared with SUM where that is given, and the heat of the mesh with
 * what the source brought. No function of libm is used, whose last bit depends on the CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	SIDE_MAX = 8,		/* points along the side of the finest element */
	EDGES = 4,		/* of an element: east, north, west, south */
	SWEEPS = 20,		/* in a step */
	TURN = 64,		/* steps in which the source goes once over the mesh */
};

#define FLOW 0.1		/* of a difference, in a sweep; 0.25 is where it becomes unstable */

struct element {
	/* Points along a side: 1, 2, 4 or 8. */
	int side;
	int neighbour[EDGES];
	/* The middle, in lengths of the mesh. */
	double x, y;
	/* What flowed in through each edge in this sweep, as heat. */
	double inflow[EDGES];
	double value[SIDE_MAX * SIDE_MAX];
	/* What value is to be, while neighbours in the element still read it. */
	double next[SIDE_MAX * SIDE_MAX];
};

static struct element *mesh;
static int elements;

static void fail(const char *attempt, const char *cause, const char *remedy)
{
	fprintf(stderr, "cannot %s: %s; %s\n", attempt, cause, remedy);
	exit(1);
}

/* The number of the point on an edge of an element, counted along it. */
static int on_edge(int side, int edge, int at)
{
	switch (edge) {
	case 0: return at * side + side - 1;
	case 1: return (side - 1) * side + at;
	case 2: return at * side;
	default: return at;
	}
}

static void build(int cells)
{
	int *number = malloc(sizeof(*number) * cells * cells);
	unsigned long long random = 88172645463325252ULL;
	int i, x, y;

	elements = cells * cells;
	mesh = calloc(elements, sizeof(*mesh));
	if (!number || !mesh)
		fail("build the mesh", "there is not enough memory", "give another with --set cells=NUMBER");
	for (i = 0; i < elements; i++)
		number[i] = i;
	for (i = elements - 1; i > 0; i--) {
		int other, kept = number[i];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		other = random % (i + 1);
		number[i] = number[other];
		number[other] = kept;
	}
	for (y = 0; y < cells; y++) {
		for (x = 0; x < cells; x++) {
			struct element *e = &mesh[number[y * cells + x]];

			e->side = 1;
			e->x = (x + 0.5) / cells;
			e->y = (y + 0.5) / cells;
			e->neighbour[0] = number[y * cells + (x + 1) % cells];
			e->neighbour[1] = number[(y + 1) % cells * cells + x];
			e->neighbour[2] = number[y * cells + (x + cells - 1) % cells];
			e->neighbour[3] = number[(y + cells - 1) % cells * cells + x];
		}
	}
	free(number);
}

/* The square of how far two places are from each other on a ring of length 1. */
static double apart(double a, double b)
{
	double d = a > b ? a - b : b - a;

	if (d > 0.5)
		d = 1 - d;
	return d * d;
}

/* Twice as many points along a side, each with the value of the one that it is a quarter of. */
static void refine(struct element *e)
{
	int side = e->side * 2, x, y;

	for (y = 0; y < side; y++)
		for (x = 0; x < side; x++)
			e->next[y * side + x] = e->value[y / 2 * e->side + x / 2];
	e->side = side;
	memcpy(e->value, e->next, sizeof(*e->value) * side * side);
}

static void coarsen(struct element *e)
{
	int side = e->side / 2, x, y;

	for (y = 0; y < side; y++) {
		for (x = 0; x < side; x++) {
			double *of = &e->value[2 * y * e->side + 2 * x];

			e->next[y * side + x] = (of[0] + of[1] + of[e->side] + of[e->side + 1]) / 4;
		}
	}
	e->side = side;
	memcpy(e->value, e->next, sizeof(*e->value) * side * side);
}

/* How much heat the source gives an element at a time. */
static double given(const struct element *e, double x, double y)
{
	return 1 / (1 + 400 * (apart(e->x, x) + apart(e->y, y)));
}

/* Fits the element to where the source is, one size at a time, and gives it its part of the heat. */
static void adapt(struct element *e, double x, double y)
{
	double far = apart(e->x, x) + apart(e->y, y);
	int wanted = far < 0.01 ? 8 : far < 0.04 ? 4 : far < 0.09 ? 2 : 1;
	int i;

	if (e->side < wanted)
		refine(e);
	else if (e->side > wanted)
		coarsen(e);
	for (i = 0; i < e->side * e->side; i++)
		e->value[i] += given(e, x, y);
}

static double mean_on_edge(const struct element *e, int edge)
{
	double sum = 0;
	int at;

	for (at = 0; at < e->side; at++)
		sum += e->value[on_edge(e->side, edge, at)];
	return sum / e->side;
}

/* What flows in through each edge, by what is on both of its sides. */
static void meet(struct element *e)
{
	int edge;

	for (edge = 0; edge < EDGES; edge++) {
		const struct element *other = &mesh[e->neighbour[edge]];
		int finer = e->side > other->side ? e->side : other->side;
		double difference = mean_on_edge(other, (edge + 2) % EDGES) - mean_on_edge(e, edge);

		/* Its points are so large. The same number on both sides, so that none is lost. */
		e->inflow[edge] = FLOW * difference / ((double)finer * finer);
	}
}

/* Heat flows between the points of an element; each is a part of it, so that heat is value / side / side. */
static void flow(struct element *e)
{
	int side = e->side, x, y, edge, at;

	for (y = 0; y < side; y++) {
		for (x = 0; x < side; x++) {
			double own = e->value[y * side + x], sum = 0;

			if (x > 0)
				sum += e->value[y * side + x - 1] - own;
			if (x < side - 1)
				sum += e->value[y * side + x + 1] - own;
			if (y > 0)
				sum += e->value[(y - 1) * side + x] - own;
			if (y < side - 1)
				sum += e->value[(y + 1) * side + x] - own;
			e->next[y * side + x] = own + FLOW * sum;
		}
	}
	for (edge = 0; edge < EDGES; edge++)
		for (at = 0; at < side; at++)
			e->next[on_edge(side, edge, at)] += e->inflow[edge] * side;
	memcpy(e->value, e->next, sizeof(*e->value) * side * side);
}

static double heat_of(const struct element *e)
{
	double sum = 0;
	int i;

	for (i = 0; i < e->side * e->side; i++)
		sum += e->value[i];
	return sum / (e->side * e->side);
}

static int number(const char *text, int most, const char *name)
{
	char *end, attempt[64];
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < 1 || value > most) {
		snprintf(attempt, sizeof(attempt), "use %s=%.20s", name, text);
		fail(attempt, "that is not a whole number, or too many", "give another with --set");
	}
	return value;
}

int main(int argc, char **argv)
{
	struct timespec begun, ended;
	double brought = 0, heat = 0, lost;
	char sum[64];
	int steps, step, i;

	if (argc != 3 && argc != 4)
		fail("compute", "it takes CELLS STEPS [SUM]", "start it through metasched");
	build(number(argv[1], 1024, "cells"));
	steps = number(argv[2], 1000000, "steps");
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (step = 0; step < steps; step++) {
		double x = (double)(step % TURN) / TURN, y = (double)(step * 3 % TURN) / TURN;
		int sweep;

#pragma omp parallel for schedule(static)
		for (i = 0; i < elements; i++)
			adapt(&mesh[i], x, y);
		for (sweep = 0; sweep < SWEEPS; sweep++) {
#pragma omp parallel
			{
				int at;

#pragma omp for schedule(static)
				for (at = 0; at < elements; at++)
					meet(&mesh[at]);
#pragma omp for schedule(static)
				for (at = 0; at < elements; at++)
					flow(&mesh[at]);
			}
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	for (step = 0; step < steps && step < TURN; step++) {
		double x = (double)step / TURN, y = (double)(step * 3 % TURN) / TURN, once = 0;

		for (i = 0; i < elements; i++)
			once += given(&mesh[i], x, y);
		/* The source has been there so often. */
		brought += once * ((steps - step + TURN - 1) / TURN);
	}
	for (i = 0; i < elements; i++)
		heat += heat_of(&mesh[i]);
	lost = (brought - heat) / brought;
	snprintf(sum, sizeof(sum), "%.17g", heat);
	printf("took %.6f s, regions %d, sum %s, lost %.1e\n",
	       (ended.tv_sec - begun.tv_sec) + (ended.tv_nsec - begun.tv_nsec) / 1e9, steps * (SWEEPS + 1),
	       sum, lost);
	if (lost > 1e-9 || lost < -1e-9)
		fail("check the result", "heat was lost", "report it");
	if (argc == 4 && strcmp(sum, argv[3]))
		fail("check the result", "the sum is another than with one thread", "report it");
	return 0;
}
