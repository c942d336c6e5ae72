import json
import unittest

import metrics


class Line(unittest.TestCase):
    def figures(self, *args):
        line = metrics.line(*args)
        self.assertTrue(line.startswith("METASCHED {"))
        self.assertNotIn("\n", line)
        return json.loads(line.removeprefix("METASCHED "))

    def test_the_line_holds_every_latency_once(self):
        latencies = [30, 10, 20, 10, *range(1000, 1996)]
        figures = self.figures(latencies, 2, 4.0)
        self.assertEqual((figures["requests"], figures["errors"]), (1000, 2))
        self.assertEqual(figures["throughput_per_s"], 250.0)
        self.assertEqual(figures["histogram"][:3], [[10, 2], [20, 1], [30, 1]])
        self.assertEqual(sum(count for _, count in figures["histogram"]), 1000)
        self.assertAlmostEqual(figures["mean_us"], sum(latencies) / 1000)
        self.assertEqual(figures["p50_us"], 1495)
        self.assertEqual(figures["p99_us"], 1985)
        self.assertEqual(figures["p999_us"], 1994)
        self.assertEqual(figures["max_us"], 1995)

    def test_counts_by_value_do_as_well_as_single_latencies(self):
        self.assertEqual(metrics.line([5, 9, 9], 1, 2.0), metrics.line({9: 2, 5: 1, 7: 0}, 1, 2.0))

    def test_a_latency_can_be_that_of_many_requests(self):
        figures = self.figures([100, 300], 0, 2.0, 800)
        self.assertEqual((figures["requests"], figures["throughput_per_s"]), (800, 400.0))
        self.assertEqual((figures["mean_us"], figures["max_us"]), (200, 300))

    def test_some_of_the_requests_are_told_apart(self):
        figures = self.figures([5, 9, 9], 0, 2.0, None, {"light": {9: 1, 5: 1, 7: 0}})
        self.assertEqual(figures["subsets"], {"light": [[5, 1], [9, 1]]})
        self.assertNotIn("subsets", self.figures([5], 0, 2.0))

    def test_a_run_without_a_finished_call_says_so(self):
        figures = self.figures([], 7, 2.0)
        self.assertEqual((figures["requests"], figures["errors"]), (0, 7))
        self.assertEqual(figures["histogram"], [])

    def test_a_percentile_is_a_value_that_was_measured(self):
        histogram = [(5, 1), (7, 98), (100, 1)]
        self.assertEqual(metrics.percentile(histogram, 0.01), 5)
        self.assertEqual(metrics.percentile(histogram, 0.5), 7)
        self.assertEqual(metrics.percentile(histogram, 0.99), 7)
        self.assertEqual(metrics.percentile(histogram, 0.991), 100)
        self.assertEqual(metrics.percentile(histogram, 1.0), 100)
