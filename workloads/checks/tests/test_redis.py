import importlib.util
import unittest
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "redis"
SPEC = importlib.util.spec_from_file_location("redis_load", FOLDER / "load.py")
load = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(load)

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


class Load(unittest.TestCase):
    def test_both_lists_of_points_make_one_histogram(self):
        counts, seconds = load.read(SAID)
        self.assertEqual(counts, {39: 1, 263: 9, 303: 2, 3271: 8})
        self.assertEqual(seconds, 0.01)

    def test_what_has_no_figures_or_not_all_is_refused(self):
        for text in ("Could not connect", SAID.replace("count 20", "count 19")):
            with self.assertRaises(ValueError):
                load.read(text)
