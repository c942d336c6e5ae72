# SPDX-License-Identifier: GPL-2.0-only
import contextlib
import io
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import load
import pods

from . import FOLDER

HOME = tempfile.TemporaryDirectory()
PROGRAM = str(Path(HOME.name, "function"))


def setUpModule():
    source = str(FOLDER / "function.c")
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-O1", source, "-o", PROGRAM, "-lm", "-lpthread"]
    subprocess.run(command, check=True, timeout=60)


def tearDownModule():
    HOME.cleanup()


def start(*arguments):
    cgroup = Path(HOME.name, "cgroup")
    cgroup.mkdir(exist_ok=True)
    (cgroup / "cgroup.procs").touch()
    return subprocess.Popen(
        [PROGRAM, cgroup, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments):
    """How many calls of one function had which latency."""
    function = start(*arguments)
    said, errors = function.communicate(f"{time.monotonic_ns() + 50_000_000}\n", timeout=60)
    assert function.returncode == 0, errors
    ready, *lines = said.splitlines()
    assert ready == "ready"
    return dict(tuple(map(int, line.split())) for line in lines)


class Function(unittest.TestCase):
    def test_as_many_calls_as_the_samples_say_are_under_way(self):
        few = sum(run(1, "closed", 20000, 1, 1, 5, 2).values())
        many = sum(run(1, "closed", 20000, 1, 1, 5, 10).values())
        # With no CPU to wait for: 50 calls for each that is under way.
        self.assertTrue(60 <= few <= 110, few)
        self.assertTrue(3 * few <= many <= 7 * few, (few, many))

    def test_a_second_without_samples_has_no_calls(self):
        counts = run(2, "closed", 20000, 1, 1, 5, 4, 0)
        self.assertLessEqual(sum(counts.values()), 220)
        self.assertEqual(run(1, "closed", 20000, 1, 1, 5, 0), {})

    def test_sleeps_are_spread_about_their_mean(self):
        counts = run(1, "closed", 20000, 1, 1, 5, 20)
        mean = sum(us * count for us, count in counts.items()) / sum(counts.values())
        self.assertTrue(19_000 <= mean <= 30_000, mean)
        self.assertLess(min(counts), 15_000)

    def test_threads_share_a_call(self):
        self.assertGreater(sum(run(1, "closed", 20000, 64, 5, 5, 4).values()), 100)

    def test_an_open_loop_has_its_rate_whatever_a_call_takes(self):
        for sleep_us in (20000, 200_000):
            calls = sum(run(2, "open", sleep_us, 1, 1, 5, 10, 10).values())
            # 100 a second, less those that go on at the end.
            self.assertTrue(130 <= calls <= 250, (sleep_us, calls))

    def test_what_waits_for_too_long_is_too_late(self):
        closed = run(2, "closed", 1_900_000, 1, 1, 5, 8, 8)
        self.assertGreaterEqual(sum(count for us, count in closed.items() if us >= 1_000_000), 6)
        late = run(2, "open", 1_900_000, 1, 1, 5, 1, 1)
        self.assertGreaterEqual(sum(late.values()), 5)

    def test_latencies_have_three_digits(self):
        for us in run(1, "closed", 20000, 1, 1, 5, 4):
            self.assertLessEqual(len(str(us).rstrip("0")), 3)

    def test_arguments_that_make_no_sense_are_refused(self):
        right = [1, "closed", 20000, 1, 1, 5, 2]
        for place, wrong in ((0, 1.5), (0, "x"), (2, -1), (3, 0), (4, 0), (4, 4097), (6, "1e9")):
            function = start(*right[:place], wrong, *right[place + 1 :])
            said, errors = function.communicate(timeout=60)
            self.assertEqual((function.returncode, said), (1, ""), (place, wrong))
            self.assertRegex(errors, r"^cannot .*: .*; .*\n$")

    def test_a_function_that_nobody_starts_ends(self):
        function = start(1, "closed", 20000, 1, 1, 5, 2)
        self.assertRegex(function.communicate("", timeout=60)[1], "^cannot start a function: ")


class Load(unittest.TestCase):
    """The load as it is, but for the cgroups."""

    @staticmethod
    @contextlib.contextmanager
    def folders(number):
        with tempfile.TemporaryDirectory() as home:
            folders = [Path(home, str(at)) for at in range(number)]
            for folder in folders:
                folder.mkdir()
                (folder / "cgroup.procs").touch()
            yield folders

    def run_load(self, parallel="none", program=PROGRAM, **parameters):
        environment = {
            "METASCHED_DURATION_S": "1",
            "METASCHED_CPUS": "2",
            "METASCHED_PARAM_DENSITY": "3",
            "METASCHED_PARAM_LOAD": "1",
            "METASCHED_PARAM_LOOP": "closed",
            "METASCHED_PARAM_SLEEP_US": "20000",
            "METASCHED_PARAM_KIB": "1",
            "METASCHED_PARAM_WIDTH": "2",
            "METASCHED_PARAM_SEED": "1",
            "METASCHED_PARAM_SAMPLES": "none",
            "METASCHED_PARAM_PIN": "no",
        }
        environment |= {f"METASCHED_PARAM_{name}": value for name, value in parameters.items()}
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(pods, "made", self.folders),
            contextlib.redirect_stdout(said),
        ):
            load.main(program, parallel)
        return json.loads(said.getvalue().removeprefix("METASCHED "))

    def assert_stops(self, words, **given):
        with self.assertRaises(SystemExit) as stopped:
            self.run_load(**given)
        self.assertRegex(stopped.exception.code, r"^cannot .*: .*; .*$")
        self.assertIn(words, stopped.exception.code)

    def test_the_figures_are_those_of_all_functions(self):
        for parallel in ("none", "some", "all"):
            figures = self.run_load(parallel)
            self.assertEqual(sum(count for _, count in figures["histogram"]), figures["requests"])
            self.assertGreater(figures["requests"], 200)
            self.assertEqual((figures["errors"], figures["duration_s"]), (0, 1.0))

    def test_the_calls_of_light_functions_are_told_apart(self):
        figures = self.run_load(DENSITY="6", LOAD="4")
        light, every = dict(figures["subsets"]["light"]), dict(figures["histogram"])
        # One of twelve has most calls.
        self.assertTrue(0 < sum(light.values()) < sum(every.values()) / 2, figures)
        self.assertTrue(all(count <= every[us] for us, count in light.items()))
        self.assertEqual(load.light([[1, 0], [9, 9], [0, 2]]), {0, 2})

    def test_pinned_functions_have_one_cpu_each_in_turn(self):
        allowed = []
        begin = load.start

        def remember(*arguments):
            function = begin(*arguments)
            allowed.append(os.sched_getaffinity(function.pid))
            return function

        cpus = sorted(os.sched_getaffinity(0))
        for pin in ("yes", "no"):
            with mock.patch.object(load, "start", remember):
                self.run_load(PIN=pin)
        self.assertEqual(allowed[:6], [{cpus[at % len(cpus)]} for at in range(6)])
        self.assertEqual(allowed[6:], [set(cpus)] * 6)

    def test_late_calls_are_errors_and_no_throughput(self):
        figures = self.run_load(SLEEP_US="1900000")
        late = sum(count for us, count in figures["histogram"] if us >= load.TIMELY_US)
        self.assertEqual(figures["errors"], late)
        self.assertEqual(figures["requests"], sum(c for _, c in figures["histogram"]) - late)

    def test_samples_of_ones_own_are_dealt_out(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("busy,idle\n4,\n")
            file.flush()
            # Three of the six functions have four calls at a time.
            requests = self.run_load(SAMPLES=file.name)["requests"]
        self.assertTrue(300 <= requests <= 660, requests)

    def test_what_is_too_much_or_nothing_is_refused(self):
        self.assert_stops("density=4000", DENSITY="4000")
        self.assert_stops("load=9999", LOAD="9999")
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("0\n1\n")
            file.flush()
            self.assert_stops("no function has a call in the first 1 s", SAMPLES=file.name)

    def test_functions_that_do_not_start_are_an_error(self):
        self.assert_stops("No such file", program="/no/such/program")
        self.assert_stops("6 of 6 ended with status 1", KIB="0")

    def test_a_function_that_is_killed_is_an_error_and_the_others_end(self):
        started = []

        def kill():
            while len(started) < 6 or started[0].stdin is None or not started[0].stdin.closed:
                time.sleep(0.01)
            started[0].kill()

        begin = load.start

        def remember(*arguments):
            started.append(begin(*arguments))
            return started[-1]

        killer = threading.Thread(target=kill)
        killer.start()
        with mock.patch.object(load, "start", remember):
            self.assert_stops("1 of 6 ended with signal 9")
        killer.join()
        self.assertTrue(all(function.poll() is not None for function in started))

    def test_of_mixed_functions_every_second_is_parallel_also_of_the_busiest(self):
        with mock.patch.dict(os.environ, {"METASCHED_PARAM_WIDTH": "4"}):
            widths = [load.width(at, "some") for at in range(48)]
            self.assertEqual(widths.count("4"), 24)
            self.assertEqual([widths[at] for at in (0, 12, 24, 36)], ["4", "1", "4", "1"])
            self.assertEqual({load.width(at, "all") for at in range(48)}, {"4"})
            self.assertEqual({load.width(at, "none") for at in range(48)}, {"1"})


class Parameters(unittest.TestCase):
    def test_numbers_that_are_none_are_refused(self):
        right = {
            "DENSITY": "1", "LOAD": "1", "LOOP": "closed", "SLEEP_US": "1", "KIB": "1", "WIDTH": "1",
            "SEED": "1", "SAMPLES": "none", "PIN": "no",
        }  # fmt: skip
        for name, wrong in (("DENSITY", "0"), ("LOAD", "-1"), ("KIB", "x"), ("SEED", "1.5")):
            variables = {f"METASCHED_PARAM_{key}": value for key, value in (right | {name: wrong}).items()}
            variables |= {"METASCHED_RUN": "/x", "METASCHED_CPUS": "2", "METASCHED_DURATION_S": "1"}
            done = subprocess.run(
                ["bash", FOLDER / "load.sh", "none"],
                env={"PATH": os.environ["PATH"]} | variables,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^cannot use {name.lower()}={wrong}: .*; .*\n$")
