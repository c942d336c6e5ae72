# SPDX-License-Identifier: GPL-2.0-only
"""figures.py LOG DURATION_US: the figures of a log with a latency in microseconds on each line."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "common"))
import metrics


def main(log: str, duration_us: str) -> None:
    """Prints the figures of the log."""
    latencies = [int(line) for line in Path(log).read_text().split()]
    print(metrics.line(latencies, 0, int(duration_us) / 1e6))


if __name__ == "__main__":
    main(*sys.argv[1:])
