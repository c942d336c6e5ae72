# SPDX-License-Identifier: GPL-2.0-only
"""figures.py CSV BENCHMARK DROP_PERCENT: the figures of the runs that Renaissance wrote down."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "common"))
import metrics
import repeat

DURATION = "duration_ns"


def durations_us(path: str, benchmark: str) -> list[int]:
    """How long each run took, in the order in which they were made."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("benchmark") == benchmark]
    try:
        return [round(int(row[DURATION]) / 1000) for row in rows]
    except (KeyError, TypeError, ValueError):
        cause = f"it has no column {DURATION} of numbers"
        repeat.stop(f"read '{path}'", cause, "use a release of Renaissance")
        raise


def without_slowest(durations: list[int], percent: int) -> list[int]:
    """The runs without so many of 100, the slowest; one is left in any case."""
    dropped = len(durations) * percent // 100
    return sorted(durations)[: max(1, len(durations) - dropped)]


def main(path: str, benchmark: str, percent: str) -> None:
    """Prints the figures."""
    if not (percent.isdecimal() and int(percent) < 100):
        repeat.stop(
            f"drop {percent} percent", "that is not from 0 to 99", "give --set drop-percent=25"
        )
    durations = durations_us(path, benchmark)
    if not durations:
        repeat.stop(f"read '{path}'", f"it has no run of '{benchmark}'", "see the load's log")
    kept = without_slowest(durations, int(percent))
    # What lies between two runs is the harness's own work.
    print(metrics.line(kept, 0, sum(kept) / 1e6))


if __name__ == "__main__":
    main(*sys.argv[1:])
