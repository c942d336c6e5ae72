# SPDX-License-Identifier: GPL-2.0-only
"""What is measured of requests, from when all users are there until the time is over."""

from __future__ import annotations

import time
from collections import Counter

import metrics


class Figures:
    """The latencies and errors of one run."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begin_s: float | None = None
        self.counts: Counter[int] = Counter()
        self.errors = 0
        self.last_error = ""

    def begin(self) -> None:
        """All users are there."""
        self.begin_s = time.monotonic()

    def over(self) -> bool:
        """Whether the time is over."""
        return self.begin_s is not None and time.monotonic() >= self.begin_s + self.seconds

    def add(self, latency_us: float, error: BaseException | str | None) -> None:
        """A request has ended now."""
        if self.begin_s is None or self.over():
            return
        if error is None:
            self.counts[round(latency_us)] += 1
        else:
            self.errors += 1
            self.last_error = str(error) or type(error).__name__

    def line(self) -> str:
        """What the tool reads."""
        return metrics.line(self.counts, self.errors, self.seconds)
