# SPDX-License-Identifier: GPL-2.0-only
"""load.py FILE STRESS-NG...: repeats stress-ng until the time is over, and adds up its figures.

A chunk's latency is the time of its slowest stressor; the starts in between do not count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import metrics
import repeat

DONE = re.compile(r"^ +bogo-ops: ([0-9]+)$", re.MULTILINE)
SECONDS = re.compile(r"^ +wall-clock-time: ([0-9.]+)$", re.MULTILINE)


def read(text: str) -> tuple[int, float]:
    """The operations of all stressors, and the seconds of the slowest."""
    done = [int(count) for count in DONE.findall(text)]
    seconds = [float(value) for value in SECONDS.findall(text)]
    if not done or len(done) != len(seconds) or not max(seconds) > 0:
        repeat.stop("read stress-ng's figures", f"they are {text[-99:]!r}", "see whether it ran")
    return sum(done), max(seconds)


def main(file: Path, command: list[str]) -> None:
    """Repeats the command and prints the figures."""
    operations = 0
    latencies: list[int] = []

    def once() -> None:
        nonlocal operations
        file.unlink(missing_ok=True)
        repeat.run([*command, "--metrics", "--yaml", str(file)])
        done, seconds = read(file.read_text())
        operations += done
        latencies.append(round(seconds * 1e6))

    repeat.until_over(once, repeat.duration_s())
    print(metrics.line(latencies, 0, sum(latencies) / 1e6, operations))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
