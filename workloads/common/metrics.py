# SPDX-License-Identifier: GPL-2.0-only
"""The line of figures that the tool reads."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping

PREFIX = "METASCHED "


def percentile(histogram: list[tuple[int, int]], fraction: float) -> int:
    """The smallest value that `fraction` of a sorted, filled histogram does not exceed."""
    rank = max(1, math.ceil(fraction * sum(count for _, count in histogram)))
    seen = 0
    for value, count in histogram:
        seen += count
        if seen >= rank:
            return value
    raise ValueError("the histogram is empty")


def in_order(counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """Values that there are, with their counts."""
    return sorted((value, count) for value, count in counts.items() if count)


def line(
    latencies_us: Iterable[int] | Mapping[int, int],
    errors: int,
    duration_s: float,
    requests: int | None = None,
    subsets: Mapping[str, Mapping[int, int]] | None = None,
) -> str:
    """Latencies and the number of failed requests, as one line.

    The latencies are single ones, or counts by value. `requests` says how many units of work
    were finished where one latency is that of several; `subsets` are counts of some of the requests.
    """
    histogram = in_order(Counter(latencies_us))
    measured = sum(count for _, count in histogram)
    if requests is None:
        requests = measured
    figures: dict[str, object] = {
        "throughput_per_s": requests / duration_s,
        "requests": requests,
        "errors": errors,
        "duration_s": duration_s,
    }
    if histogram:
        figures["mean_us"] = sum(value * count for value, count in histogram) / measured
        for name, fraction in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
            figures[f"{name}_us"] = percentile(histogram, fraction)
        figures["max_us"] = histogram[-1][0]
    figures["histogram"] = histogram
    if subsets:
        figures["subsets"] = {name: in_order(counts) for name, counts in subsets.items()}
    return PREFIX + json.dumps(figures, separators=(",", ":"))
