/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reborn: four processes that compute for 300 ms each, for ever. One that ends is followed by another one of the same
 * number.
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT 4
#define COMPUTES_NS 300000000LL

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Of that number; 0 for any. */
static pid_t bear(pid_t number)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	long long end_ns;
	pid_t child;

	if (number) {
		args.set_tid = (uintptr_t)&number;
		args.set_tid_size = 1;
	}
	child = syscall(SYS_clone3, &args, sizeof(args));
	if (child)
		return child;
	end_ns = now_ns() + COMPUTES_NS;
	while (now_ns() < end_ns)
		;
	_exit(0);
}

int main(void)
{
	pid_t child = 1;

	for (int i = 0; i < COUNT && child > 0; i++)
		child = bear(0);
	while (child > 0) {
		child = wait(NULL);
		if (child > 0)
			child = bear(child);
	}
	perror("reborn: nobody is born");
	return 1;
}
