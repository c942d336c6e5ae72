# SPDX-License-Identifier: GPL-2.0-only
"""repeat.py [--units N] [--says PATTERN] COMMAND...: repeats a command until the time is over.

Each run is one latency and N units of work (1 if not given). A run that fails ends all. The
last run is finished, so the time that counts is somewhat longer than METASCHED_DURATION_S.

With --says a run takes as many seconds as its output says where PATTERN matches; the time
between these does not count, such as that in which the command starts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import metrics


def stop(attempt: str, cause: str, remedy: str) -> NoReturn:
    """Ends the program with an error."""
    sys.exit(f"cannot {attempt}: {cause}; {remedy}")


def duration_s() -> float:
    """How long a load shall last."""
    text = os.environ.get("METASCHED_DURATION_S", "")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        stop("run a load", f"METASCHED_DURATION_S is '{text}'", "start it through metasched")
    return seconds


def until_over(once: Callable[[], object], seconds: float) -> tuple[list[int], float]:
    """Calls `once` until the time is over, at least once: latencies in us, seconds taken."""
    latencies: list[int] = []
    begin = now = time.monotonic()
    while now - begin < seconds or not latencies:
        start = now
        once()
        now = time.monotonic()
        latencies.append(round((now - start) * 1e6))
    return latencies, now - begin


def run(command: list[str]) -> str:
    """Runs a command that has to succeed, and gives its standard output."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        stop(f"run '{command[0]}'", error.strerror or str(error), "prepare the workload anew")
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
        cause = f"it ended with status {done.returncode}: {said[-1] if said else 'it said nothing'}"
        stop(f"run '{' '.join(command)}'", cause, "see whether the parameters fit this machine")
    return done.stdout.decode(errors="replace")


def said_us(pattern: str, output: str) -> int:
    """The time in microseconds that a command says it took, in seconds."""
    match = re.search(pattern, output)
    if match is None:
        cause = f"'{pattern}' is not in {output[-99:]!r}"
        stop("read the command's output", cause, "see whether its version is another")
    return round(float(match[1]) * 1e6)


def main(arguments: list[str]) -> None:
    """Repeats the command and prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=1)
    parser.add_argument("--says")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    said: list[int] = []

    def once() -> None:
        output = run(given.command)
        if given.says:
            said.append(said_us(given.says, output))

    latencies, took_s = until_over(once, duration_s())
    if given.says:
        latencies, took_s = said, sum(said) / 1e6
    print(metrics.line(latencies, 0, took_s, given.units * len(latencies)))


if __name__ == "__main__":
    main(sys.argv[1:])
