# SPDX-License-Identifier: GPL-2.0-only
"""How many calls of each function are under way, second by second."""

from __future__ import annotations

import csv
import math
import random
import re
from pathlib import Path

import repeat

# The published samples are 300 seconds of 228 functions, for 12 CPUs. This is how many calls are under way
# in the mean, for each twelve of the functions. What comes after them is like the last.
TWELVES = (37.0, 36.7, 34.7, 33.5, 27.0, 26.5, 18.7, 18.5, 16.3, 15.7, 13.3, 13.2)
TWELVES += (10.7, 10.6, 10.1, 9.7, 8.6, 8.5, 8.1)
# And of each function of the first twelve. The others are shared out alike.
SHAPE = (29.2, 4.9, 1.7, 0.74, 0.19, 0.13, 0.07, 0.03, 0.01, 0.007, 0.007, 0.003)
PUBLISHED_CPUS = 12
# The rate of calls goes up and down: it keeps so much of its logarithm from one second to the next, and
# this is the standard deviation of that.
STAYS, SPREAD = 0.95, 0.7
# As many as a function can have under way.
MOST = 4096


def twelve(density: int) -> float:
    """How many calls are under way in the twelve functions that make up this density for 12 CPUs."""
    return TWELVES[min(density, len(TWELVES) - 1)]


def means(cpus: int, density: int) -> list[float]:
    """How many calls of each function are under way in the mean, with `density` functions for each CPU."""
    shares = [SHAPE[at % len(SHAPE)] * twelve(at // cpus) for at in range(cpus * density)]
    wanted = sum(map(twelve, range(density))) * cpus / PUBLISHED_CPUS
    return [share * wanted / sum(shares) for share in shares]


def made_up(of: list[float], seconds: int, seed: int) -> list[list[int]]:
    """Samples with these means: bursts that come and go. All together are as many as the means say, also
    in a few seconds. The same seed gives the same.
    """
    rng = random.Random(seed)
    rates = []
    for mean in of:
        level = rng.gauss(0, SPREAD)
        for _ in range(seconds):
            rates.append(mean * math.exp(level))
            level = STAYS * level + math.sqrt(1 - STAYS**2) * rng.gauss(0, SPREAD)
    # Poisson numbers whose sum is given are distributed so.
    samples = [[0] * seconds for _ in of]
    for place in rng.choices(range(len(rates)), rates, k=max(1, round(sum(of) * seconds))):
        samples[place // seconds][place % seconds] += 1
    return samples


def scaled(function: list[int], scale: float, seconds: int) -> list[int]:
    """The samples of a function times `scale`, repeated for so many seconds. What rounding cuts off comes in
    a later second.
    """
    whole, samples = 0.0, []
    for at in range(seconds):
        before = whole
        whole += function[at % len(function)] * scale
        samples.append(math.floor(whole) - math.floor(before))
    return samples


def number(cell: str) -> int | None:
    """The number of calls that a cell holds; a hole is a second without calls."""
    text = cell.strip() or "0"
    return int(text) if re.fullmatch("[0-9]{1,4}", text) and int(text) <= MOST else None


def read(path: Path) -> list[list[int]]:
    """The samples of each function from a file: a column for each, a line for each second."""
    attempt = f"read samples from '{path}'"
    remedy = "write a column for each function and a line for each second"
    another = "name another file with --set samples=FILE"
    if not path.is_absolute():
        repeat.stop(attempt, "that is not a whole path", another)
    if path.exists() and not path.is_file():
        repeat.stop(attempt, "that is not a file", another)
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        repeat.stop(attempt, str(error), another)
    while rows and not rows[-1]:
        rows.pop()
    # Names of the columns, if none of what the first line has is a number.
    cells = [cell for cell in rows[0] if cell.strip()] if rows else []
    first = 1 if cells and all(number(cell) is None for cell in cells) else 0
    columns = max(map(len, rows[:1]), default=0)
    functions: list[list[int]] = [[] for _ in range(columns)]
    for line, row in enumerate(rows[first:], first + 1):
        # An empty line is a second without calls.
        cells = row or [""] * columns
        if len(cells) != columns:
            repeat.stop(attempt, f"line {line} has {len(cells)} columns, not {columns}", remedy)
        for function, cell in zip(functions, cells, strict=True):
            calls = number(cell)
            if calls is None:
                cause = f"'{cell}' on line {line} is not a number of calls from 0 to {MOST}"
                repeat.stop(attempt, cause, remedy)
            function.append(calls)
    if not any(map(any, functions)):
        repeat.stop(attempt, "there is no call in it", remedy)
    return functions
