# SPDX-License-Identifier: GPL-2.0-only
"""serve.py CONTAINERS PORT HIDDEN SERVER READY: a model server in each of many containers.

The model is loaded once. Then a process is forked for each container, enters a cgroup of its own, and
answers POST /predict at an address of its own. With a SERVER other than 'own' each runs that command
instead. The file READY is written when all answer.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pods
import repeat

from addresses import QUESTION, address

# A model has so many layers, and gives so many numbers.
LAYERS, CLASSES = 4, 10
# More is no question.
BYTES_MAX = 1 << 20
# Until all containers answer.
READY_S = 240.0

Predict = Callable[[list[float]], list[float]]


def load_model(hidden: int) -> Predict:
    """A perceptron whose layers have so many neurons each."""
    import numpy

    rng = numpy.random.default_rng(1)
    layers = [
        rng.standard_normal((hidden, hidden), dtype=numpy.float32) / numpy.sqrt(numpy.float32(hidden))
        for _ in range(LAYERS)
    ]

    def predict(inputs: list[float]) -> list[float]:
        values = numpy.resize(numpy.asarray(inputs, dtype=numpy.float32), hidden)
        for layer in layers:
            values = numpy.tanh(values @ layer)
        return values[:CLASSES].tolist()

    return predict


def handler(predict: Predict) -> type[BaseHTTPRequestHandler]:
    """What answers the requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answers a request; what is none has the status 400."""
            if self.path != "/predict":
                self.say(404, {"error": "there is only /predict"})
                return
            try:
                length = int(self.headers.get("Content-Length", ""))
                if not 0 < length <= BYTES_MAX:
                    raise ValueError("it has too few or too many bytes")
                inputs = [float(value) for value in json.loads(self.rfile.read(length))["inputs"]]
                if not inputs:
                    raise ValueError("there are no inputs")
            except (ValueError, TypeError, KeyError) as error:
                self.say(400, {"error": str(error)})
                return
            self.say(200, {"outputs": predict(inputs)})

        def say(self, status: int, answer: object) -> None:
            """Sends an answer."""
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing is written: it would be measured."""

    return Handler


class Server(ThreadingHTTPServer):
    """Each request has a thread."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Who has gone away is not told of."""


def answer(at: int, port: int, predict: Predict) -> None:
    """Serves in this process for ever."""
    try:
        server = Server((address(at), port), handler(predict))
    except OSError as error:
        attempt = f"listen on {address(at)}:{port}"
        repeat.stop(attempt, error.strerror, "stop that, or give another with --set port=NUMBER")
    # Not to look twice a second whether it is to stop: a hundred servers that do keep a CPU busy.
    server.serve_forever(poll_interval=None)


def start(at: int, port: int, cgroup: Path, server: str, predict: Predict | None) -> int:
    """Starts a container; its process."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        (cgroup / "cgroup.procs").write_text("0")
        if os.environ["METASCHED_PARAM_PIN"] == "yes":
            pods.pin(at)
        if predict is not None:
            answer(at, port, predict)
        words = [word.format(address=address(at), port=port) for word in shlex.split(server)]
        os.execvp(words[0], words)
    except (OSError, KeyError, IndexError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}"
        print(f"cannot start container {at}: {cause}; correct --set server=COMMAND", file=sys.stderr)
    except SystemExit as error:
        print(error.code, file=sys.stderr)
    finally:
        # Nothing of the parent's is left to this process.
        sys.stderr.flush()
        os._exit(status)


def check(running: dict[int, int], wait: bool) -> None:
    """Stops if a container has ended; `wait`: when one does."""
    pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
    if pid:
        at = running.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        how = f"status {code}" if code >= 0 else f"signal {-code}"
        cause = f"the server of container {at} ended with {how}"
        repeat.stop("serve", cause, "see what it said above")


def answers(at: int, port: int) -> bool:
    """Whether a container answers a question. That also has it copy the pages that it writes to."""
    asked = http.client.HTTPConnection(address(at), port, timeout=10)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(asked):
        asked.request("POST", "/predict", QUESTION, {"Content-Type": "application/json"})
        return asked.getresponse().status == 200
    return False


def until_all_answer(running: dict[int, int], port: int) -> None:
    """Waits for all containers."""
    until = time.monotonic() + READY_S
    for at in sorted(running.values()):
        while not answers(at, port):
            check(running, wait=False)
            if time.monotonic() > until:
                cause = f"container {at} at {address(at)}:{port} does not answer after {READY_S:.0f} s"
                repeat.stop("serve", cause, "run fewer of them, or correct --set server=COMMAND")
            time.sleep(0.05)


@contextlib.contextmanager
def ended_with_us() -> Iterator[dict[int, int]]:
    """Which container each process is, which are killed when the block is left.

    One that has not entered its cgroup yet is not killed with that, and would say why it cannot
    serve after we have.
    """
    running: dict[int, int] = {}
    try:
        yield running
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        for pid in running:
            os.waitpid(pid, 0)


def main(containers: int, port: int, hidden: int, server: str, ready: Path) -> None:
    """Serves until it is told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    predict = load_model(hidden) if server == "own" else None
    # What is there is shared by all, so the collector is not to touch it.
    gc.freeze()
    with pods.made(containers) as cgroups, ended_with_us() as running:
        for at, cgroup in enumerate(cgroups):
            running[start(at, port, cgroup, server, predict)] = at
        until_all_answer(running, port)
        ready.touch()
        check(running, wait=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4], Path(sys.argv[5]))
