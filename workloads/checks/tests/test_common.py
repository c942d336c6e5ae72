import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import pods

COMMON = Path(__file__).parent.parent.parent / "common"


def bash(script, **variables):
    """Runs a script that has sourced common.sh and packages.sh."""
    sourced = f". {COMMON}/common.sh; . {COMMON}/packages.sh; "
    return subprocess.run(
        ["bash", "-c", "set -euo pipefail; " + sourced + script],
        env={"PATH": os.environ["PATH"]} | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Checks(unittest.TestCase):
    def assert_refused(self, done, words):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"^cannot .*: .*; .*\n$")
        self.assertIn(words, done.stderr)

    def test_seconds_are_rounded_up_and_never_zero(self):
        for given, whole in (("4", 4), ("1.5", 2), ("0.2", 1), ("3.0", 3), ("08.01", 9), (".5", 1)):
            done = bash("whole_seconds", METASCHED_DURATION_S=given)
            self.assertEqual(done.stdout, f"{whole}\n", given)
        self.assert_refused(bash("whole_seconds", METASCHED_DURATION_S="4x"), "'4x'")

    def test_what_is_not_set_is_named(self):
        self.assert_refused(bash("need HOME PATH"), "HOME")
        self.assert_refused(bash("need_tool bash no-such-tool"), "no-such-tool")

    def test_a_count_is_a_whole_number(self):
        self.assertEqual(bash("need_count loops", METASCHED_PARAM_LOOPS="100").returncode, 0)
        for count in ("0", "-1", "1.5", "x", "99999999", "1 2"):
            self.assert_refused(bash("need_count loops", METASCHED_PARAM_LOOPS=count), "loops=")

    def test_a_port_is_free_until_something_listens(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = str(server.getsockname()[1])
            self.assertEqual(bash("port_free", METASCHED_PARAM_PORT=port).returncode, 0)
            self.assert_refused(bash("port_open", METASCHED_PARAM_PORT=port), port)
            server.listen()
            self.assertEqual(bash("port_open", METASCHED_PARAM_PORT=port).returncode, 0)
            self.assert_refused(bash("port_free", METASCHED_PARAM_PORT=port), port)
        self.assert_refused(bash("port_free", METASCHED_PARAM_PORT="65536"), "65535")

    def test_a_package_that_is_none_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("no-such-package-anywhere", "../x"):
                done = bash(f"fetch_packages {name}", METASCHED_CACHE=folder)
                self.assert_refused(done, name)

    def test_staging_before_preparing_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bash("stage_root", METASCHED_CACHE=folder, METASCHED_RUN=folder)
            self.assert_refused(done, "prepare it first")
            self.assert_refused(bash("use_root", METASCHED_RUN=folder), "stage the workload first")

    def test_what_is_packed_is_staged_and_comes_first(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bash(
                "mkdir -p $METASCHED_CACHE/root/usr/bin; cd $METASCHED_CACHE/root/usr/bin;"
                "printf '#!/bin/sh\necho ours\n' >id; chmod +x id; cd /;"
                "pack_root; stage_root; use_root; id",
                METASCHED_CACHE=f"{folder}/cache",
                METASCHED_RUN=f"{folder}/run",
            )
            self.assertEqual(done.stdout, "ours\n", done.stderr)

    def test_a_fresh_folder_holds_nothing_of_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "data/old").mkdir(parents=True)
            done = bash("fresh_folder data", METASCHED_RUN=folder)
            self.assertEqual(done.stdout, f"{folder}/data\n")
            self.assertEqual(os.listdir(f"{folder}/data"), [])


class Repeat(unittest.TestCase):
    def repeat(self, *command, seconds="0.3"):
        return subprocess.run(
            ["/usr/bin/python3", COMMON / "repeat.py", *command],
            env={
                "PATH": os.environ["PATH"],
                "METASCHED_DURATION_S": seconds,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_a_command_is_run_until_the_time_is_over(self):
        begin = time.monotonic()
        done = self.repeat("--units", "5", "sleep", "0.05")
        self.assertGreater(time.monotonic() - begin, 0.3)
        figures = json.loads(done.stdout.removeprefix("METASCHED "))
        runs = sum(count for _, count in figures["histogram"])
        self.assertEqual(figures["requests"], 5 * runs)
        self.assertLessEqual(runs, 6)
        self.assertGreaterEqual(figures["p50_us"], 50_000)
        self.assertAlmostEqual(figures["throughput_per_s"], 5 * runs / figures["duration_s"])

    def test_a_command_that_fails_is_an_error_with_its_last_words(self):
        full = ["sh", "-c", "echo no room >&2; exit 3"]
        for command, words in ((full, "no room"), (["gone"], "gone")):
            done = self.repeat(*command)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"^cannot run .*: .*; .*\n$")
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_the_time_that_counts_can_be_what_the_command_says(self):
        done = self.repeat("--units", "10", "--says", r"took ([0-9.]+) s", "echo", "took 0.25 s")
        figures = json.loads(done.stdout.removeprefix("METASCHED "))
        self.assertEqual((figures["throughput_per_s"], figures["p50_us"]), (40, 250_000))
        done = self.repeat("--says", r"took ([0-9.]+) s", "echo", "done")
        self.assertRegex(done.stderr, r"^cannot read .*'done\\n'; .*\n$")

    def test_a_duration_that_is_none_is_refused(self):
        for seconds in ("", "0", "-1", "inf", "long"):
            self.assertIn("METASCHED_DURATION_S", self.repeat("true", seconds=seconds).stderr)


class Pods(unittest.TestCase):
    def test_nothing_is_done_to_a_cgroup_that_is_not_ours(self):
        with tempfile.TemporaryDirectory() as home:
            own = Path(home, "other")
            (own / "kubepods.slice").mkdir(parents=True)
            with (
                mock.patch.object(pods, "own_cgroup", lambda: own),
                self.assertRaises(SystemExit),
                pods.made(1),
            ):
                self.fail("it went on")
            self.assertEqual(os.listdir(own / "kubepods.slice"), [])
