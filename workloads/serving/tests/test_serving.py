# SPDX-License-Identifier: GPL-2.0-only
import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from unittest import mock

import addresses
import drive
import figures

import serve

from . import FOLDER


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Addresses(unittest.TestCase):
    def test_each_container_has_one_of_its_own_on_this_machine(self):
        all_of_them = {addresses.address(at) for at in range(4096)}
        self.assertEqual(len(all_of_them), 4096)
        for address in all_of_them:
            self.assertRegex(address, r"^127\.8\.\d{1,2}\.([1-9]\d?|1\d\d|2[0-4]\d|250)$")


class Answers(unittest.TestCase):
    def setUp(self):
        self.server = serve.Server(("127.0.0.1", 0), serve.handler(sorted))
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ask(self, path, body, **headers):
        asked = http.client.HTTPConnection(*self.server.server_address, timeout=10)
        with contextlib.closing(asked):
            asked.request("POST", path, body, headers)
            said = asked.getresponse()
            return said.status, json.loads(said.read())

    def test_a_question_is_answered(self):
        self.assertEqual(self.ask("/predict", '{"inputs": [3, 1.5]}'), (200, {"outputs": [1.5, 3.0]}))
        status, said = self.ask("/predict", addresses.QUESTION)
        self.assertEqual((status, len(said["outputs"])), (200, 64))

    def test_what_is_no_question_is_refused_and_the_server_goes_on(self):
        for body in ("", "{", "[]", "3", "{}", '{"inputs": []}', '{"inputs": ["x"]}', '{"inputs": 3}'):
            status, said = self.ask("/predict", body)
            self.assertEqual((status, list(said)), (400, ["error"]), body)
        self.assertEqual(self.ask("/predict", "{}", **{"Content-Length": "99999999"})[0], 400)
        self.assertEqual(self.ask("/other", "{}")[0], 404)
        self.assertEqual(self.ask("/predict", '{"inputs": [1]}')[0], 200)


class Servers(unittest.TestCase):
    """The servers as they are, but for the cgroups and the model."""

    SCRIPT = """
import contextlib, sys, tempfile
from pathlib import Path
import pods, serve

@contextlib.contextmanager
def made(number):
    with tempfile.TemporaryDirectory() as home:
        folders = [Path(home, str(at)) for at in range(number)]
        for folder in folders:
            folder.mkdir()
        yield folders

pods.made = made
serve.load_model = lambda hidden: sorted
serve.READY_S = float(sys.argv[4])
serve.main(3, int(sys.argv[1]), 1, sys.argv[2], Path(sys.argv[3]))
"""

    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.ready = Path(home.name, "ready")

    @contextlib.contextmanager
    def started(self, port, server="own", ready_s=60, pin="no"):
        command = ["/usr/bin/python3", "-c", self.SCRIPT, port, server, self.ready, ready_s]
        servers = subprocess.Popen(
            list(map(str, command)),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{FOLDER}:{FOLDER.parent / 'common'}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "METASCHED_PARAM_PIN": pin,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield servers
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(servers.pid, signal.SIGKILL)
            servers.communicate()

    def until_ready(self, servers):
        until = time.monotonic() + 60
        while not self.ready.exists():
            self.assertIsNone(servers.poll(), "it ended")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def assert_fails(self, servers, *words):
        servers.wait(timeout=60)
        with self.assertRaises(ProcessLookupError, msg="a container is left"):
            os.killpg(servers.pid, signal.SIGKILL)
        said = servers.communicate(timeout=60)[1]
        self.assertEqual(servers.returncode, 1, said)
        self.assertRegex(said.splitlines()[-1], "^cannot serve: .*; .*$")
        for word in words:
            self.assertIn(word, said)

    def test_users_are_answered_until_it_is_told_to_stop(self):
        port = free_port()
        with self.started(port) as servers:
            self.until_ready(servers)
            found = asyncio.run(drive.drive(1.0, 4, 100, 3, port, 0.05))
            self.assertGreater(found.counts.total(), 20)
            self.assertEqual(found.errors, 0, found.last_error)
            line = json.loads(found.line().removeprefix("METASCHED "))
            self.assertEqual((line["requests"], line["duration_s"]), (found.counts.total(), 1.0))
            servers.terminate()
            self.assertEqual(servers.wait(timeout=60), 0)

    def test_a_server_that_is_killed_is_one_clear_error(self):
        with self.started(free_port()) as servers:
            self.until_ready(servers)
            children = Path(f"/proc/{servers.pid}/task/{servers.pid}/children").read_text().split()
            self.assertEqual(len(children), 3)
            os.kill(int(children[1]), signal.SIGKILL)
            self.assert_fails(servers, "the server of container 1 ended with signal 9")

    def test_pinned_containers_have_one_cpu_each_in_turn(self):
        cpus = sorted(os.sched_getaffinity(0))
        with self.started(free_port(), pin="yes") as servers:
            self.until_ready(servers)
            children = Path(f"/proc/{servers.pid}/task/{servers.pid}/children").read_text().split()
            allowed = [os.sched_getaffinity(int(child)) for child in children]
            self.assertEqual(allowed, [{cpus[at % len(cpus)]} for at in range(3)])

    def test_an_address_that_is_in_use_is_named(self):
        port = free_port()
        with socket.socket() as taken:
            taken.bind((addresses.address(2), port))
            taken.listen()
            with self.started(port) as servers:
                self.assert_fails(servers, f"cannot listen on {addresses.address(2)}:{port}", "in use")

    def test_another_server_is_a_command_with_the_address_in_it(self):
        port = free_port()
        script = Path(self.ready.parent, "other.py")
        script.write_text(
            "import sys, serve\n"
            "serve.Server((sys.argv[1], int(sys.argv[2])), serve.handler(sorted)).serve_forever()\n"
        )
        with self.started(port, f"/usr/bin/python3 {script} {{address}} {{port}}") as servers:
            self.until_ready(servers)
            self.assertTrue(serve.answers(2, port))

    def test_a_command_that_is_none_or_never_answers_is_an_error(self):
        with self.started(free_port(), "/no/such/server {address}") as servers:
            self.assert_fails(servers, "No such file", "ended with status 1")
        with self.started(free_port(), "server {adress}") as servers:
            self.assert_fails(servers, "adress")
        with self.started(free_port(), "sleep 100", ready_s=0.3) as servers:
            self.assert_fails(servers, "does not answer")


class Drive(unittest.TestCase):
    def test_answers_that_are_none_and_servers_that_are_gone_are_errors(self):
        with socket.create_server((addresses.address(0), 0)) as server:
            port = server.getsockname()[1]

            def hang_up():
                with contextlib.suppress(OSError):
                    while True:
                        server.accept()[0].close()

            threading.Thread(target=hang_up, daemon=True).start()
            found = asyncio.run(drive.drive(0.5, 2, 100, 1, port, 0.02))
            self.assertEqual(found.counts, {})
            self.assertGreater(found.errors, 4)
            server.shutdown(socket.SHUT_RDWR)
        found = asyncio.run(drive.drive(0.3, 2, 100, 1, port, 0.02))
        self.assertGreater(found.errors, 2)
        self.assertIn("Connect call failed", found.last_error)

    def test_one_that_never_answers_does_not_hold_the_run_up(self):
        with (
            socket.create_server((addresses.address(0), 0)) as server,
            mock.patch.object(drive, "TIMEOUT_S", 0.1),
        ):
            began = time.monotonic()
            found = asyncio.run(drive.drive(0.5, 2, 100, 1, server.getsockname()[1], 0.02))
            self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(found.last_error, "TimeoutError")


class Figures(unittest.TestCase):
    def test_only_what_ends_while_all_users_are_there_counts(self):
        measured = figures.Figures(0.2)
        measured.add(1000, None)
        measured.begin()
        measured.add(2000.4, None)
        measured.add(9, "refused")
        time.sleep(0.25)
        self.assertTrue(measured.over())
        measured.add(3000, None)
        self.assertEqual((measured.counts, measured.errors), ({2000: 1}, 1))


class Locust(unittest.TestCase):
    """What Locust is told, with stand-ins for it and gevent."""

    def test_it_measures_when_all_users_are_there_and_prints_the_figures(self):
        class Event:
            def add_listener(self, listener):
                self.listener = listener
                return listener

        names = ("request", "init", "quitting", "spawning_complete")
        events = types.SimpleNamespace(**{name: Event() for name in names})
        later = []
        locust = types.ModuleType("locust")
        locust.FastHttpUser, locust.task, locust.events = object, lambda task: task, events
        locust.between = lambda low, high: (low, high)
        gevent = types.ModuleType("gevent")
        gevent.spawn_later = lambda *what: later.append(what)
        runner = types.SimpleNamespace(quit=lambda: None)
        environment = types.SimpleNamespace(events=events, runner=runner, process_exit_code=1)
        parameters = {"CONTAINERS": "3", "PORT": "9", "THINK_MS": "2000"}
        variables = {f"METASCHED_PARAM_{name}": value for name, value in parameters.items()}
        said = []
        with (
            mock.patch.dict(sys.modules, {"locust": locust, "gevent": gevent}),
            mock.patch.dict(os.environ, variables | {"METASCHED_DURATION_S": "7"}),
        ):
            import locustfile
        with mock.patch("builtins.print", lambda text, **_: said.append(text)):
            self.assertEqual(locustfile.User.wait_time, (1.0, 3.0))
            events.init.listener(environment=environment)
            events.request.listener(response_time=1.0, exception=None)
            events.spawning_complete.listener(user_count=3)
            self.assertEqual(later, [(7.0, runner.quit)])
            events.request.listener(response_time=12.5, exception=None, name="/predict")
            events.request.listener(response_time=1.0, exception=OSError("refused"))
            events.quitting.listener(environment=environment)
        line = json.loads(said[-1].removeprefix("METASCHED "))
        self.assertEqual((line["requests"], line["errors"], line["p50_us"]), (1, 1, 12_500))
        self.assertEqual(environment.process_exit_code, 0)
        self.assertIn("refused", said[0])


class Scripts(unittest.TestCase):
    def run_script(self, script, path=os.environ["PATH"], **changed):
        with tempfile.TemporaryDirectory() as folder:
            variables = {
                "CACHE": folder, "RUN": folder, "DURATION_S": "1", "PARAM_CONTAINERS": "3",
                "PARAM_USERS": "3", "PARAM_SPAWN": "3", "PARAM_THINK_MS": "3", "PARAM_HIDDEN": "3",
                "PARAM_DRIVER": "own", "PARAM_CLIENTS": "near", "PARAM_SERVER": "own",
                "PARAM_PORT": str(free_port()), "PARAM_PIN": "no",
            }  # fmt: skip
            done = subprocess.run(
                ["bash", FOLDER / script],
                env={"PATH": path}
                | {f"METASCHED_{name}": value for name, value in (variables | changed).items()},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^cannot .*: .*; .*\n$")
        return done.stderr

    def test_a_start_before_staging_and_a_load_before_the_start(self):
        self.assertIn("stage the workload first", self.run_script("run.sh"))
        self.assertIn("nothing listens there", self.run_script("load.sh"))

    def test_numbers_that_are_none(self):
        for script, name in (("run.sh", "CONTAINERS"), ("run.sh", "HIDDEN"), ("load.sh", "USERS")):
            words = f"use {name.lower()}=x"
            self.assertIn(words, self.run_script(script, **{f"PARAM_{name}": "x"}))
        self.assertIn("4096 are the most", self.run_script("run.sh", PARAM_CONTAINERS="4097"))

    def test_far_clients_where_real_time_is_refused(self):
        with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as server:
            chrt = Path(home, "chrt")
            chrt.write_text("#!/bin/sh\nexit 1\n")
            chrt.chmod(0o755)
            Path(home, "root").mkdir()
            said = self.run_script(
                "load.sh",
                PARAM_CLIENTS="far",
                PARAM_PORT=str(server.getsockname()[1]),
                RUN=home,
                path=f"{home}:{os.environ['PATH']}",
            )
        self.assertIn("give --set clients=near", said)

    def test_preparing_without_a_network(self):
        with tempfile.TemporaryDirectory() as cache:
            # A virtual environment that is made there keeps its settings.
            settings = Path(cache, "venv/pip.conf")
            settings.parent.mkdir()
            settings.write_text("[global]\nindex-url = http://127.0.0.1:9/\nretries = 0\n")
            said = self.run_script("prepare.sh", CACHE=cache)
            self.assertNotIn("root.tar", os.listdir(cache))
        self.assertIn("see whether pip reaches its registry", said)

    def test_every_requirement_is_pinned(self):
        for path in (FOLDER / "requirements").glob("*.txt"):
            for line in path.read_text().splitlines():
                if not line.startswith("#"):
                    self.assertRegex(line, r"^[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*$", path.name)
