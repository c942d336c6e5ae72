# SPDX-License-Identifier: GPL-2.0-only
"""load.py FOLDER PGBENCH...: runs pgbench and adds up the latencies that it logs in FOLDER."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import metrics
import repeat

FIELD = {
    "done": re.compile(r"number of transactions actually processed: ([0-9]+)"),
    "failed": re.compile(r"number of failed transactions: ([0-9]+)"),
    "rate": re.compile(r"tps = ([0-9.]+) \(without initial connection time\)"),
}


def field(name: str, text: str) -> float:
    """A figure of pgbench's summary."""
    match = FIELD[name].search(text)
    if match is None:
        cause = f"it lacks '{name}': {text[-99:]!r}"
        repeat.stop("read pgbench's summary", cause, "use pgbench 15")
    return float(match[1])


def latencies(folder: Path) -> Counter[int]:
    """The latencies in microseconds of all logs, by value; failed ones have none."""
    counts: Counter[int] = Counter()
    for path in folder.glob("log.*"):
        with path.open() as log:
            counts.update(int(words[2]) for words in map(str.split, log) if words[2].isdigit())
    return counts


def main(folder: str, command: list[str]) -> None:
    """Runs the command once and prints the figures."""
    said = repeat.run([*command, "--log", f"--log-prefix={folder}/log"])
    done = int(field("done", said))
    counts = latencies(Path(folder))
    if sum(counts.values()) != done:
        cause = f"{sum(counts.values())} are logged of {done} transactions"
        repeat.stop("read pgbench's logs", cause, "see whether the memory file system is full")
    print(metrics.line(counts, int(field("failed", said)), done / field("rate", said)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
