"""The line of figures that the tool reads."""

from __future__ import annotations

import json
import math
from collections import Counter

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


def line(latencies_us: list[int], errors: int, duration_s: float) -> str:
    """Latencies of finished requests and the number of failed ones, as one line."""
    histogram = sorted(Counter(latencies_us).items())
    figures: dict[str, object] = {
        "throughput_per_s": len(latencies_us) / duration_s,
        "requests": len(latencies_us),
        "errors": errors,
        "duration_s": duration_s,
    }
    if histogram:
        figures["mean_us"] = sum(latencies_us) / len(latencies_us)
        for name, fraction in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
            figures[f"{name}_us"] = percentile(histogram, fraction)
        figures["max_us"] = histogram[-1][0]
    figures["histogram"] = histogram
    return PREFIX + json.dumps(figures, separators=(",", ":"))
