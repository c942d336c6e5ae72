# SPDX-License-Identifier: GPL-2.0-only
"""How many calls of each function are under way, second by second."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import repeat

# Of each twelve functions of the Azure trace of 2021, the mean concurrency: as published for the first
# of them, and next to nothing for the rest.
MEANS = (29.2, 4.9, 1.7, 0.74, 0.19, 0.13, 0.07, 0.03, 0.01, 0.005, 0.003, 0.001)
# The published samples repeat after so many seconds.
SECONDS = 300
# The rate of calls goes up and down: it keeps so much of its logarithm from one second to the next,
# and its standard deviation is this.
STAYS, SPREAD = 0.95, 0.7


def poisson(mean: float, rng: random.Random) -> int:
    """A Poisson number, by adding up what lies between arrivals."""
    passed, count = rng.expovariate(1.0), 0
    while passed < mean:
        passed += rng.expovariate(1.0)
        count += 1
    return count


def made_up(number: int, scale: float) -> list[int]:
    """The samples of function `number`, whose mean is as published times `scale`: bursts that come
    and go. They are the same each time.
    """
    rng = random.Random(number)
    mean = MEANS[number % len(MEANS)] * scale
    level = rng.gauss(0, SPREAD)
    samples = []
    for _ in range(SECONDS):
        level = STAYS * level + math.sqrt(1 - STAYS**2) * rng.gauss(0, SPREAD)
        samples.append(poisson(mean * math.exp(level - SPREAD**2 / 2), rng))
    return samples


def read(path: Path) -> list[list[int]]:
    """The samples of each function from a file: a column for each, a line for each second."""
    attempt = f"read samples from '{path}'"
    remedy = "write a column for each function and a line for each second"
    try:
        rows = list(csv.reader(path.read_text().splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        repeat.stop(attempt, str(error), "name a file with --set samples=FILE")
    if rows and not any(cell.strip().isdigit() for cell in rows[0]):
        rows = rows[1:]
    if not rows:
        repeat.stop(attempt, "there are none", remedy)
    functions: list[list[int]] = [[] for _ in rows[0]]
    for line, row in enumerate(rows, 1):
        if len(row) != len(functions):
            cause = f"line {line} has {len(row)} columns, not {len(functions)}"
            repeat.stop(attempt, cause, remedy)
        for function, cell in zip(functions, row, strict=True):
            # A hole is a second without calls.
            text = cell.strip() or "0"
            if not text.isdigit() or int(text) > 4096:
                cause = f"'{text}' on line {line} is not a number of calls from 0 to 4096"
                repeat.stop(attempt, cause, remedy)
            function.append(int(text))
    return functions
