# SPDX-License-Identifier: GPL-2.0-only
"""Several processes side by side, each of which repeats something until the time is over."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable

import repeat


def line(once: Callable[[], object], end: float) -> Counter[int]:
    """Repeats `once` until the clock shows `end`, at least once: latencies in us by value."""
    counts: Counter[int] = Counter()
    now = time.monotonic()
    while now < end or not counts:
        start = now
        once()
        now = time.monotonic()
        counts[round((now - start) * 1e6)] += 1
    return counts


def start(once: Callable[[], object], end: float) -> tuple[int, int]:
    """Starts a process for one line: its id, and where its counts can be read."""
    readable, writable = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        repeat.stop("start a process", error.strerror or str(error), "start fewer of them")
    if pid:
        os.close(writable)
        return pid, readable
    os.close(readable)
    try:
        counts = line(once, end)
        with open(writable, "w") as pipe:
            json.dump(list(counts.items()), pipe)
    except Exception as error:
        print(f"cannot go on with a line: {error}; see whether that can be helped", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def run(lines: int, once: Callable[[], object], seconds: float) -> tuple[Counter[int], float]:
    """Runs so many lines for `seconds`: latencies in us by value, seconds taken."""
    begin = time.monotonic()
    started = [start(once, begin + seconds) for _ in range(lines)]
    counts: Counter[int] = Counter()
    failed = []
    # All of them have ended before one's failure is told: none goes on alone.
    for pid, readable in started:
        with open(readable) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status != 0:
            failed.append(pid)
            continue
        for value, count in json.loads(said):
            counts[value] += count
    if failed:
        repeat.stop("run the load", f"process {failed[0]} of it failed", "see above")
    return counts, time.monotonic() - begin
