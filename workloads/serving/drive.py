# SPDX-License-Identifier: GPL-2.0-only
"""drive.py: asks as the users of Locust do, with less of a CPU.

A user asks a container at random, waits for the answer, thinks, and asks the next one.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

import repeat

from addresses import QUESTION, address
from figures import Figures

# Who waits longer has no answer.
TIMEOUT_S = 10.0


async def ask(container: int, port: int) -> None:
    """Asks once; an error if the answer is none."""
    reader, writer = await asyncio.open_connection(address(container), port)
    try:
        writer.write(
            b"POST /predict HTTP/1.0\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(QUESTION), QUESTION)
        )
        said = await reader.read()
    finally:
        writer.close()
    status = said.partition(b"\r\n")[0]
    if b" 200 " not in status:
        raise ConnectionError(f"the answer is {status[:80]!r}")


async def user(figures: Figures, containers: int, port: int, think_s: float, seed: int) -> None:
    """Asks until the time is over."""
    rng = random.Random(seed)
    while not figures.over():
        began, error = time.monotonic(), None
        try:
            await asyncio.wait_for(ask(rng.randrange(containers), port), TIMEOUT_S)
        except (OSError, asyncio.TimeoutError) as failed:
            error = failed
        figures.add((time.monotonic() - began) * 1e6, error)
        await asyncio.sleep(rng.uniform(0.5, 1.5) * think_s)


async def drive(
    seconds: float, users: int, spawn: int, containers: int, port: int, think_s: float
) -> Figures:
    """Has users come, so many each second, and then measures."""
    figures = Figures(seconds)
    tasks = []
    for seed in range(users):
        tasks.append(asyncio.create_task(user(figures, containers, port, think_s, seed)))
        await asyncio.sleep(1 / spawn)
    figures.begin()
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    return figures


def main() -> None:
    """Asks, and prints the figures."""
    figures = asyncio.run(
        drive(
            repeat.duration_s(),
            int(os.environ["METASCHED_PARAM_USERS"]),
            int(os.environ["METASCHED_PARAM_SPAWN"]),
            int(os.environ["METASCHED_PARAM_CONTAINERS"]),
            int(os.environ["METASCHED_PARAM_PORT"]),
            int(os.environ["METASCHED_PARAM_THINK_MS"]) / 1000,
        )
    )
    if figures.errors:
        print(f"{figures.errors} errors, the last of them: {figures.last_error}", file=sys.stderr)
    print(figures.line())


if __name__ == "__main__":
    main()
