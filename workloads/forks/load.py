# SPDX-License-Identifier: GPL-2.0-only
"""load.py LINES PROGRAM: makes children in so many lines, which run the program if it is not ''."""

from __future__ import annotations

import os
import sys

import lines
import metrics
import repeat


def child(program: str) -> None:
    """Makes one child and waits for its end."""
    pid = os.fork()
    if not pid:
        if program:
            os.execv(program, [program])
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise ChildProcessError(f"a child ended with status {status}")


def main(number: int, program: str) -> None:
    """Makes children until the time is over and prints the figures."""
    counts, took_s = lines.run(number, lambda: child(program), repeat.duration_s())
    print(metrics.line(counts, 0, took_s))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
