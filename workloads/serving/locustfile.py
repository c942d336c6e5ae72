# SPDX-License-Identifier: GPL-2.0-only
"""The same users by Locust."""

from __future__ import annotations

import os
import random
import sys

import gevent
import repeat
from locust import FastHttpUser, between, events, task

from addresses import QUESTION, address
from figures import Figures

CONTAINERS = int(os.environ["METASCHED_PARAM_CONTAINERS"])
PORT = int(os.environ["METASCHED_PARAM_PORT"])
THINK_S = int(os.environ["METASCHED_PARAM_THINK_MS"]) / 1000
measured = Figures(repeat.duration_s())


class User(FastHttpUser):
    """Asks a container at random, thinks, and asks the next one."""

    host = f"http://{address(0)}:{PORT}"
    wait_time = between(0.5 * THINK_S, 1.5 * THINK_S)
    connection_timeout = network_timeout = 10.0

    @task
    def predict(self) -> None:
        """Asks once."""
        url = f"http://{address(random.randrange(CONTAINERS))}:{PORT}/predict"
        headers = {"Content-Type": "application/json"}
        self.client.post(url, name="/predict", data=QUESTION, headers=headers)


@events.request.add_listener
def ended(response_time: float, exception: BaseException | None, **_: object) -> None:
    """Counts a request, which took so many milliseconds."""
    measured.add(response_time * 1000, exception)


@events.init.add_listener
def measure(environment: object, **_: object) -> None:
    """Has the clock begin when all users are there."""

    def all_there(**_: object) -> None:
        measured.begin()
        gevent.spawn_later(measured.seconds, environment.runner.quit)

    environment.events.spawning_complete.add_listener(all_there)


@events.quitting.add_listener
def told(environment: object, **_: object) -> None:
    """Prints the figures; errors are among them, and no reason to fail."""
    environment.process_exit_code = 0
    if measured.errors:
        print(f"{measured.errors} errors, the last of them: {measured.last_error}", file=sys.stderr)
    print(measured.line(), flush=True)
