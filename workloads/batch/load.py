# SPDX-License-Identifier: GPL-2.0-only
"""load.py PROCESSES STEPS: computes in so many processes, in units of so many steps."""

from __future__ import annotations

import sys

import lines
import metrics
import repeat


def unit(steps: int) -> int:
    """A fixed amount of integer arithmetic (a linear congruential generator)."""
    value = 1
    for _ in range(steps):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
    return value


def main(processes: int, steps: int) -> None:
    """Computes until the time is over and prints the figures."""
    counts, took_s = lines.run(processes, lambda: unit(steps), repeat.duration_s())
    print(metrics.line(counts, 0, took_s))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
