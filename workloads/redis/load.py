# SPDX-License-Identifier: GPL-2.0-only
"""load.py COMMAND...: repeats redis-benchmark until the time is over, and adds up what it says.

redis-benchmark counts requests, not time. For each test it prints how many requests took at
most how long, at points of two lists. All requests between two points are taken as long as the
upper one, which is too much by at most 0.1 ms up to 2 ms, and 1 ms above. The time that counts
is that of its tests, without its starts.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import metrics
import repeat

POINT = re.compile(r"<= ([0-9.]+) milliseconds \(cumulative count ([0-9]+)\)")
DONE = re.compile(r"([0-9]+) requests completed in")
RATE = re.compile(r"throughput summary: ([0-9.]+) requests per second")


def read(text: str) -> tuple[Counter[int], float]:
    """The latencies in microseconds by value, and the seconds of one test's output."""
    requests, rate = DONE.search(text), RATE.search(text)
    if requests is None or rate is None:
        raise ValueError(f"there are no figures in '{text[:100]}'")
    points = sorted({(round(float(ms) * 1000), int(count)) for ms, count in POINT.findall(text)})
    counts: Counter[int] = Counter()
    seen = 0
    for value, count in points:
        if count > seen:
            counts[value] += count - seen
            seen = count
    if seen != int(requests[1]):
        raise ValueError(f"it has latencies of {seen} of {requests[1]} requests")
    return counts, seen / float(rate[1])


def main(command: list[str]) -> None:
    """Repeats the command and prints the figures."""
    counts: Counter[int] = Counter()
    tests_s = 0.0

    def once() -> None:
        nonlocal tests_s
        # "====== SET ======" begins a test; before the first there is its progress.
        for text in re.split(r"====== .* ======", repeat.run(command))[1:]:
            latencies, seconds = read(text)
            counts.update(latencies)
            tests_s += seconds

    repeat.until_over(once, repeat.duration_s())
    print(metrics.line(counts, 0, tests_s))


if __name__ == "__main__":
    main(sys.argv[1:])
