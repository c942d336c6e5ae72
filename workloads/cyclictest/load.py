# SPDX-License-Identifier: GPL-2.0-only
"""load.py FILE SECONDS CYCLICTEST...: runs cyclictest, and prints its histogram for the tool."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import metrics
import repeat

MOST_US = 100_000
"""Up to here cyclictest counts. It prints a line for each microsecond, which an emulated CPU takes
a second for."""


def read(text: str) -> Counter[int]:
    """The latencies in microseconds by value. Those above MOST_US are taken as the longest."""
    counts: Counter[int] = Counter()
    for thread in json.loads(text)["thread"].values():
        histogram = {int(value): count for value, count in thread["histogram"].items()}
        counts.update(histogram)
        above = thread["cycles"] - sum(histogram.values())
        if above > 0:
            counts[thread["max"]] += above
    return counts


def main(results: str, seconds: int, command: list[str]) -> None:
    """Runs the command once and prints the figures."""
    repeat.run([*command, f"--duration={seconds}", f"--histogram={MOST_US}", f"--json={results}"])
    print(metrics.line(read(Path(results).read_text()), 0, seconds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
