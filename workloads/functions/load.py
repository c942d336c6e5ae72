# SPDX-License-Identifier: GPL-2.0-only
"""load.py PROGRAM PARALLEL: runs many functions side by side, each in a cgroup of its own.

PARALLEL says of which functions a call has several threads: none, some or all.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import metrics
import pods
import repeat
import samples

# Who waits longer gets no answer that counts.
TIMELY_US = 1_000_000
# Until all functions know when to begin.
LEAD_NS = 200_000_000
# More are not started, so that a slip of the pen does not fill the machine.
FUNCTIONS_MAX = 4096


def known_samples(seconds: int) -> list[list[int]]:
    """The samples of each function."""
    cpus, density = int(os.environ["METASCHED_CPUS"]), int(os.environ["METASCHED_PARAM_DENSITY"])
    number, scale = cpus * density, float(os.environ["METASCHED_PARAM_LOAD"])
    if number > FUNCTIONS_MAX:
        cause = f"that is {number} functions, and {FUNCTIONS_MAX} are the most"
        repeat.stop(f"use density={density}", cause, "give another with --set density=NUMBER")
    file = os.environ["METASCHED_PARAM_SAMPLES"]
    if file == "none":
        of = [scale * mean for mean in samples.means(cpus, density)]
        found = samples.made_up(of, seconds, int(os.environ["METASCHED_PARAM_SEED"]))
    else:
        known = samples.read(Path(file))
        found = [samples.scaled(known[at % len(known)], scale, seconds) for at in range(number)]
    most = max(map(max, found))
    if not 0 < most <= samples.MOST:
        cause = f"a function has {most} calls at a time, and {samples.MOST} are the most"
        if not most:
            cause = f"no function has a call in the first {seconds} s"
        repeat.stop(f"use load={scale:g}", cause, "give another with --set load=NUMBER")
    return found


def width(at: int, parallel: str) -> str:
    """How many threads a call of this function has."""
    # Every second one, and of each twelve, whose first is the busiest, once it and once the next.
    several = parallel == "all" or (parallel == "some" and (at + at // len(samples.SHAPE)) % 2 == 0)
    return os.environ["METASCHED_PARAM_WIDTH"] if several else "1"


def light(found: list[list[int]]) -> set[int]:
    """All functions but the busiest of them, which are one in twelve."""
    by_calls = sorted(range(len(found)), key=lambda at: sum(found[at]))
    return set(by_calls[: len(found) - math.ceil(len(found) / len(samples.SHAPE))])


def start(program: str, at: int, cgroup: Path, *rest: object) -> subprocess.Popen[str]:
    """Starts a function."""
    pipe = subprocess.PIPE
    before = functools.partial(pods.pin, at) if os.environ["METASCHED_PARAM_PIN"] == "yes" else None
    try:
        command = [program, str(cgroup), *map(str, rest)]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, preexec_fn=before)
    except OSError as error:
        repeat.stop(f"run '{program}'", error.strerror or str(error), "run fewer functions")


def ended(functions: list[subprocess.Popen[str]], attempt: str) -> None:
    """Stops if a function has failed; all of them have ended, or are about to."""
    failed = [status for status in (function.wait() for function in functions) if status]
    if failed:
        how = f"status {failed[0]}" if failed[0] > 0 else f"signal {-failed[0]}"
        cause = f"{len(failed)} of {len(functions)} ended with {how}"
        repeat.stop(attempt, cause, "see what they said above, or run fewer of them")


def run(functions: list[subprocess.Popen[str]]) -> list[Counter[int]]:
    """Has all functions begin at the same time: how many calls of each had which latency in us."""
    silent = [function for function in functions if function.stdout.readline() != "ready\n"]
    ended(silent, "start the functions")
    begin_ns = time.monotonic_ns() + LEAD_NS
    for function in functions:
        # Of one that was killed its status tells.
        with contextlib.suppress(BrokenPipeError), function.stdin as pipe:
            pipe.write(f"{begin_ns}\n")
    said = []
    for function in functions:
        with function.stdout as pipe:
            said.append(pipe.readlines())
    ended(functions, "run the functions")
    return [Counter(dict(map(int, line.split()) for line in lines)) for lines in said]


def main(program: str, parallel: str) -> None:
    """Runs all functions until the time is over and prints the figures."""
    seconds = repeat.duration_s()
    found = known_samples(math.ceil(seconds))
    fixed = [os.environ[f"METASCHED_PARAM_{name}"] for name in ("LOOP", "SLEEP_US", "KIB")]
    # Their own random numbers are the same in each run, too.
    rng = random.Random(os.environ["METASCHED_PARAM_SEED"])
    with pods.made(len(found)) as cgroups:
        functions = [
            start(program, at, cgroup, seconds, *fixed, width(at, parallel), rng.getrandbits(63), *calls)
            for at, (cgroup, calls) in enumerate(zip(cgroups, found, strict=True))
        ]
        by_function = run(functions)
    counts: Counter[int] = Counter()
    of_light: Counter[int] = Counter()
    for of in by_function:
        counts.update(of)
    for at in light(found):
        of_light.update(by_function[at])
    timely = sum(calls for us, calls in counts.items() if us < TIMELY_US)
    late = counts.total() - timely
    print(metrics.line(counts, late, seconds, requests=timely, subsets={"light": of_light}))


if __name__ == "__main__":
    main(*sys.argv[1:])
