# SPDX-License-Identifier: GPL-2.0-only
"""The program, and the scripts around it."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).parent.parent
HOME = tempfile.TemporaryDirectory()
SIZE = {"METASCHED_PARAM_CELLS": "12", "METASCHED_PARAM_STEPS": "70"}
PREPARED = {"PATH": os.environ["PATH"], "METASCHED_CACHE": HOME.name} | SIZE


def bash(script, *arguments, **changed):
    environment = PREPARED | {
        "METASCHED_CPUS": "2", "METASCHED_DURATION_S": "0.2", "METASCHED_PARAM_PROGRAM": "own",
        "METASCHED_PARAM_LIBRARY": "/no/library.so", "METASCHED_PARAM_PAGE": "none",
        "METASCHED_PARAM_THREADS_PER_CPU": "1",
    }  # fmt: skip
    return subprocess.run(
        ["bash", FOLDER / script, *arguments],
        env=environment | {f"METASCHED_{name}": value for name, value in changed.items()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def setUpModule():
    prepared = bash("prepare.sh")
    assert prepared.returncode == 0, prepared.stderr


def tearDownModule():
    HOME.cleanup()


def ua(*arguments, threads=1):
    environment = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    command = [Path(HOME.name, "ua"), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


class Program(unittest.TestCase):
    def test_any_number_of_threads_computes_the_same(self):
        sums = set()
        for threads in (1, 2, 3, 8):
            done = ua(12, 70, threads=threads)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("regions 1470,", done.stdout)
            sums.add(re.search(r"sum (\S+),", done.stdout)[1])
        self.assertEqual(sums, {Path(HOME.name, "sum").read_text().strip()})

    def test_another_result_is_an_error(self):
        done = ua(12, 70, 1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^cannot check the result: .*; .*\n$")

    def test_a_mesh_of_one_element_and_one_step_keep_their_heat(self):
        for cells, steps in ((1, 1), (1, 200), (2, 1), (3, 129)):
            self.assertEqual(ua(cells, steps, threads=2).returncode, 0, (cells, steps))

    def test_numbers_that_are_none_are_refused(self):
        for arguments in ((0, 1), (1, 0), ("x", 1), (2000, 1), (1,)):
            done = ua(*arguments)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertRegex(done.stderr, r"^cannot .*: .*; .*\n$")


class Load(unittest.TestCase):
    def test_each_run_is_a_unit_that_takes_as_long_as_it_says(self):
        for policy in ("active", "passive"):
            done = bash("load.sh", policy)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads(done.stdout.removeprefix("METASCHED "))
            self.assertGreater(figures["requests"], 0)
            self.assertEqual(figures["errors"], 0)

    def test_another_program_says_itself_whether_its_result_is_right(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "ua.S.x")
            for verdict, code in (("SUCCESSFUL", 0), ("UNSUCCESSFUL", 1)):
                lines = (" Time in seconds =                     0.05", f" Verification    =  {verdict}")
                program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
                program.chmod(0o755)
                self.assertEqual(bash("load.sh", "active", PARAM_PROGRAM=str(program)).returncode, code)

    def test_what_is_not_there_is_named(self):
        for words, changed in (
            ("program=/no/such", {"PARAM_PROGRAM": "/no/such"}),
            ("program=here", {"PARAM_PROGRAM": "here"}),
            ("library=/no/library.so", {}),
            ("prepare the workload first", {"CACHE": "/no/such"}),
            ("threads-per-cpu=0", {"PARAM_THREADS_PER_CPU": "0"}),
        ):
            done = bash("load.sh", "active", "adapt", **changed)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr, r"^cannot .*: .*; .*\n$")
            self.assertIn(words, done.stderr)
