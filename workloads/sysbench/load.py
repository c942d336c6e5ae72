# SPDX-License-Identifier: GPL-2.0-only
"""load.py SYSBENCH...: runs sysbench with --histogram=on and prints its figures for the tool.

sysbench counts latencies in steps of about 2 %.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import metrics
import repeat

STEP = re.compile(r"^\s*([0-9.]+) \|\**\s+([0-9]+)$", re.MULTILINE)
EVENTS = re.compile(r"total number of events:\s+([0-9]+)")
SECONDS = re.compile(r"total time:\s+([0-9.]+)s")


def read(text: str) -> tuple[Counter[int], float]:
    """The latencies in microseconds by value, and the seconds, of sysbench's output."""
    events, seconds = EVENTS.search(text), SECONDS.search(text)
    if events is None or seconds is None:
        raise ValueError(f"there are no figures in {text[-99:]!r}")
    counts: Counter[int] = Counter()
    for milliseconds, count in STEP.findall(text):
        counts[round(float(milliseconds) * 1000)] += int(count)
    if counts.total() != int(events[1]):
        raise ValueError(f"its histogram has {counts.total()} of {events[1]} events")
    return counts, float(seconds[1])


def main(command: list[str]) -> None:
    """Runs the command once and prints the figures."""
    try:
        counts, seconds = read(repeat.run(command))
    except ValueError as error:
        repeat.stop("read sysbench's output", str(error), "use sysbench 1.0")
    print(metrics.line(counts, 0, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
