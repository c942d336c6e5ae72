# SPDX-License-Identifier: GPL-2.0-only
import io
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

import samples


class MadeUp(unittest.TestCase):
    def test_the_means_are_those_that_were_published(self):
        for density, published in ((1, 37.0), (9, 248.8), (19, 357.4)):
            means = samples.means(12, density)
            self.assertEqual(len(means), 12 * density)
            self.assertAlmostEqual(sum(means), published, delta=0.5)
        for wanted, mean in zip((29.2, 4.9, 1.7, 0.74, 0.19), samples.means(12, 19), strict=False):
            self.assertAlmostEqual(mean, wanted, delta=0.05)

    def test_they_are_scaled_to_the_machine(self):
        for cpus, density in ((1, 1), (2, 1), (2, 19), (5, 7), (96, 19)):
            means = samples.means(cpus, density)
            self.assertEqual(len(means), cpus * density)
            self.assertAlmostEqual(sum(means), sum(samples.means(12, density)) * cpus / 12)

    def test_more_functions_than_were_published_go_on_like_the_last(self):
        more, last = samples.means(12, 21), samples.means(12, 19)
        self.assertAlmostEqual(sum(more) - sum(last), 2 * samples.TWELVES[-1])

    def test_few_seconds_have_as_many_calls_as_many(self):
        means = samples.means(2, 10)
        for seconds in (1, 4, 300):
            found = samples.made_up(means, seconds, 1)
            self.assertEqual({len(function) for function in found}, {seconds})
            self.assertEqual(sum(map(sum, found)), round(sum(means) * seconds))
        self.assertEqual(sum(map(sum, samples.made_up([0.001], 1, 1))), 1)

    def test_bursts_come_and_stay(self):
        busiest = samples.made_up(samples.means(12, 1), 300, 1)[0]
        mean = sum(busiest) / 300
        spread = sum((sample - mean) ** 2 for sample in busiest) / 300
        together = sum((a - mean) * (b - mean) for a, b in zip(busiest, busiest[1:], strict=False))
        # As published: 0.6 to 1.4 times the mean, and 0.3 to 0.95 of it goes on a second later.
        self.assertTrue(0.4 < spread**0.5 / mean < 1.4, spread)
        self.assertTrue(0.3 < together / 300 / spread < 0.97, together)

    def test_a_seed_gives_the_same_and_another_one_does_not(self):
        means = samples.means(2, 4)
        self.assertEqual(samples.made_up(means, 9, 7), samples.made_up(means, 9, 7))
        self.assertNotEqual(samples.made_up(means, 9, 7), samples.made_up(means, 9, 8))


class Files(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
            file.flush()
            return samples.read(Path(file.name))

    def assert_refused(self, read, words):
        said = io.StringIO()
        with redirect_stderr(said), self.assertRaises(SystemExit) as stopped:
            read()
        self.assertRegex(stopped.exception.code, r"^cannot .*: .*; .*$")
        self.assertIn(words, stopped.exception.code)

    def test_a_column_is_a_function_and_names_are_no_samples(self):
        for text in ("1,2\n3,4\n", "a,b\n1,2\n3,4\n", "\ufeffa,b\r\n1, 2\r\n3,4\r\n\r\n"):
            self.assertEqual(self.read(text), [[1, 3], [2, 4]], text)

    def test_a_hole_is_a_second_without_calls(self):
        self.assertEqual(self.read("1,2\n,4\n5,\n"), [[1, 0, 5], [2, 4, 0]])
        self.assertEqual(self.read(",\n1,2\n\n3,4\n"), [[0, 1, 0, 3], [0, 2, 0, 4]])
        self.assertEqual(self.read("7\n\n8\n"), [[7, 0, 8]])

    def test_what_is_no_sample_is_named_with_its_line(self):
        for text, words in (
            ("a,b\n1,2\n1,-2\n", "'-2' on line 3"),
            ("1,2\n1,2.5\n", "'2.5' on line 2"),
            ("1,2\n1,nan\n", "'nan' on line 2"),
            ("1,2\n1,\u00b2\n", "on line 2"),
            ("1,4097\n", "'4097' on line 1"),
            ("1,99999999999999999999\n", "on line 1"),
            ("a,1\n", "'a' on line 1"),
            ("1,2\n1\n", "line 2 has 1 columns, not 2"),
            ("1,2\n1,2,3\n", "line 2 has 3 columns, not 2"),
        ):
            self.assert_refused(lambda text=text: self.read(text), words)

    def test_a_file_without_calls_is_refused(self):
        for text in ("", "\n\n", "a,b\n", "0,0\n,\n"):
            self.assert_refused(lambda text=text: self.read(text), "no call")

    def test_what_cannot_be_read_is_refused(self):
        self.assert_refused(lambda: self.read(b"1,\xff\n"), "can't decode")
        for path, words in (
            ("/no/such/file", "No such file"),
            ("samples.csv", "whole path"),
            ("/", "not a file"),
            ("/dev/zero", "not a file"),
        ):
            self.assert_refused(lambda path=path: samples.read(Path(path)), words)

    def test_samples_are_repeated_and_scaled(self):
        self.assertEqual(samples.scaled([1, 2, 3], 1, 5), [1, 2, 3, 1, 2])
        self.assertEqual(samples.scaled([1, 2, 3], 2, 2), [2, 4])
        self.assertEqual(samples.scaled([1], 0.25, 8), [0, 0, 0, 1, 0, 0, 0, 1])
