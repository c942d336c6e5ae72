"""What loads make of the output of their tools."""

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

WORKLOADS = Path(__file__).parent.parent.parent


def module(workload, name="load"):
    path = WORKLOADS / workload / f"{name}.py"
    spec = importlib.util.spec_from_file_location(workload, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Redis(unittest.TestCase):
    SAID = """
      20 requests completed in 0.01 seconds
    0.000% <= 0.039 milliseconds (cumulative count 1)
    50.000% <= 0.263 milliseconds (cumulative count 10)
    100.000% <= 3.271 milliseconds (cumulative count 20)
    5.000% <= 0.103 milliseconds (cumulative count 1)
    60.000% <= 0.303 milliseconds (cumulative count 12)
    100.000% <= 4.103 milliseconds (cumulative count 20)
      throughput summary: 2000.00 requests per second
    """

    def test_both_lists_of_points_make_one_histogram(self):
        counts, seconds = module("redis").read(self.SAID)
        self.assertEqual(counts, {39: 1, 263: 9, 303: 2, 3271: 8})
        self.assertEqual(seconds, 0.01)

    def test_what_has_no_figures_or_not_all_is_refused(self):
        for text in ("Could not connect", self.SAID.replace("count 20", "count 19")):
            with self.assertRaises(ValueError):
                module("redis").read(text)


class Sysbench(unittest.TestCase):
    SAID = """
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.218 |*******************                      317
      12.524 |                                         1

General statistics:
    total time:                          1.0003s
    total number of events:              318
"""

    def test_its_histogram_is_read(self):
        counts, seconds = module("sysbench").read(self.SAID)
        self.assertEqual(counts, {218: 317, 12524: 1})
        self.assertEqual(seconds, 1.0003)

    def test_a_histogram_that_lacks_events_is_refused(self):
        with self.assertRaises(ValueError):
            module("sysbench").read(self.SAID.replace("318", "319"))


class StressNg(unittest.TestCase):
    def test_operations_add_up_and_the_slowest_stressor_is_the_time(self):
        said = "".join(
            f"    - stressor: x\n      bogo-ops: {done}\n      bogo-ops-per-second-real-time: 9.5\n"
            f"      wall-clock-time: {seconds}\n"
            for done, seconds in ((200, 0.163865), (50, 0.25))
        )
        self.assertEqual(module("stress-ng").read(said), (250, 0.25))
        with self.assertRaises(SystemExit):
            module("stress-ng").read("metrics:\n")


class Cyclictest(unittest.TestCase):
    def test_threads_add_up_and_what_is_too_late_counts_as_the_latest(self):
        threads = {
            "0": {"histogram": {"50": 3, "70": 1}, "cycles": 4, "max": 70},
            "1": {"histogram": {"50": 1}, "cycles": 3, "max": 2_000_000},
        }
        said = json.dumps({"thread": threads})
        self.assertEqual(module("cyclictest").read(said), {50: 4, 70: 1, 2_000_000: 2})


class Postgresql(unittest.TestCase):
    def test_all_logs_are_read_and_failed_transactions_have_no_latency(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "log.7").write_text("0 1 500 0 17 12\n1 1 700 0 17 15\n")
            Path(folder, "log.7.1").write_text("2 1 500 0 17 11\n2 2 failed 0 17 12\n")
            counts = module("postgresql").latencies(Path(folder))
        self.assertEqual(counts, {500: 2, 700: 1})

    def test_a_summary_without_figures_is_refused(self):
        load = module("postgresql")
        said = "number of transactions actually processed: 12\n"
        self.assertEqual(load.field("done", said), 12)
        with self.assertRaises(SystemExit):
            load.field("rate", said)


class Own(unittest.TestCase):
    """Loads that are ours run here as they are."""

    def figures(self, workload, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                "PATH": os.environ["PATH"],
                "METASCHED_RUN": folder,
                "METASCHED_CPUS": "2",
                "METASCHED_DURATION_S": "0.3",
            }
            done = subprocess.run(
                ["bash", WORKLOADS / workload / "load.sh"],
                env=environment | {f"METASCHED_PARAM_{k}": v for k, v in variables.items()},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout.removeprefix("METASCHED "))
        self.assertEqual(sum(count for _, count in figures["histogram"]), figures["requests"])
        self.assertGreaterEqual(figures["duration_s"], 0.3)
        return figures

    def test_forks_counts_processes(self):
        for child in ("fork", "exec"):
            figures = self.figures("forks", PER_CPU="2", CHILD=child)
            self.assertGreaterEqual(figures["requests"], 4)

    def test_batch_counts_units_of_all_processes(self):
        figures = self.figures("batch", PER_CPU="3", LOOPS="1000")
        self.assertGreaterEqual(figures["requests"], 6)


class Lines(unittest.TestCase):
    def test_a_line_that_fails_ends_the_load_with_an_error(self):
        script = "import lines; lines.run(2, lambda: 1 / 0, 0.1)"
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script],
            cwd=WORKLOADS / "common",
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("division by zero", done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], "^cannot run the load: ")


class Renaissance(unittest.TestCase):
    def figures(self, text, *rest):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            return subprocess.run(
                ["/usr/bin/python3", WORKLOADS / "renaissance/figures.py", file.name, *rest],
                env={"PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

    SAID = "benchmark,duration_ns,uptime_ns,vm_start_unix_ms\n" + "".join(
        f"dotty,{ms}000000,5,1700000000000\n" for ms in (900, 400, 100, 110, 100, 105, 95, 90)
    )

    def test_the_slowest_quarter_of_the_runs_is_left_out(self):
        done = self.figures(self.SAID, "dotty", "25")
        figures = json.loads(done.stdout.removeprefix("METASCHED "))
        self.assertEqual((figures["requests"], figures["max_us"]), (6, 110_000))
        self.assertAlmostEqual(figures["duration_s"], 0.6)
        done = self.figures(self.SAID, "dotty", "0")
        self.assertEqual(json.loads(done.stdout.removeprefix("METASCHED "))["requests"], 8)

    def test_a_file_without_figures_is_refused(self):
        for text in ("benchmark,duration_ns\n", "a,b\ndotty,1\n", "benchmark,time\ndotty,1\n"):
            done = self.figures(text, "dotty", "25")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^cannot read .*: .*; .*\n$")


class Ffmpeg(unittest.TestCase):
    def encode(self, script, seconds="0.2"):
        return subprocess.run(
            ["/usr/bin/python3", WORKLOADS / "ffmpeg/encode.py", "sh", "-c", script],
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

    def test_frames_are_counted_from_the_first_until_the_time_is_over(self):
        done = self.encode("echo '#head'; sleep 0.3; while :; do echo 0, frame; sleep 0.02; done")
        figures = json.loads(done.stdout.removeprefix("METASCHED "))
        self.assertLess(figures["requests"], 12)
        self.assertLess(figures["max_us"], 290_000)
        self.assertGreaterEqual(figures["duration_s"], 0.2)

    def test_an_encoder_that_ends_too_early_is_an_error(self):
        done = self.encode("echo 0, frame; echo 0, frame; exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^cannot encode: .*3.*; .*\n$")


class Compile(unittest.TestCase):
    def test_the_wrapper_begins_nothing_after_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            for end, status, lines in (("9999999999999999", 0, 1), ("0", 1, 0)):
                log = Path(folder, end)
                log.touch()
                done = subprocess.run(
                    [WORKLOADS / "compile/cc", "true"],
                    env={
                        "PATH": os.environ["PATH"],
                        "COMPILE_END_US": end,
                        "COMPILE_LOG": str(log),
                    },
                    timeout=60,
                    check=False,
                )
                self.assertEqual(done.returncode, status)
                self.assertEqual(len(log.read_text().splitlines()), lines)
