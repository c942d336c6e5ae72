"""Drives the back end alone: callers in a closed loop, each call's latency measured."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import metrics

from qa import question, settings
from qa.client import BackEndError, Client

QUESTION = "How do I make a query use an index instead of scanning the whole table?"
"""The fixed payload."""

AFTER_ERROR_S = 0.05
"""Between an error and the next call, so that a dead back end is not called in a spin."""

Find = Callable[[dict[str, Any]], object]


def drive(find: Find, callers: int, duration_s: float) -> tuple[list[int], int, float, str]:
    """Calls `find` for `duration_s`: latencies in microseconds, errors, time, last error."""
    query = question.to_query(QUESTION)
    results: list[list[int]] = [[] for _ in range(callers)]
    failures: list[str] = []
    begin = time.monotonic()
    end = begin + duration_s

    def caller(latencies: list[int]) -> None:
        while (start := time.monotonic()) < end:
            try:
                find(query)
            except BackEndError as error:
                failures.append(str(error))
                time.sleep(AFTER_ERROR_S)
            else:
                latencies.append(round((time.monotonic() - start) * 1e6))

    threads = [threading.Thread(target=caller, args=(result,)) for result in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - begin
    latencies = [latency for result in results for latency in result]
    return latencies, len(failures), took_s, failures[-1] if failures else ""


def main() -> int:
    """Measures once and prints the figures."""
    given = settings.read()
    if given.duration_s <= 0:
        raise ValueError("METASCHED_DURATION_S is not set; start this through metasched")
    if given.layout == "single":
        from qa.finder import LibraryFinder

        find: Find = LibraryFinder(given.store, given.encoder).find
    else:
        client = Client(given.socket)
        try:
            client.ping()
        except BackEndError as error:
            print(f"cannot call the back end: {error}; start it first", file=sys.stderr)
            return 1
        find = client.find
    latencies, errors, took_s, last_error = drive(find, given.callers, given.duration_s)
    if errors:
        print(f"{errors} calls failed, the last with: {last_error}", file=sys.stderr)
    print(metrics.line(latencies, errors, took_s))
    return 0


if __name__ == "__main__":
    sys.exit(main())
