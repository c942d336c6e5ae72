import threading
import time
import unittest

from qa import drive
from qa.client import BackEndError


class Drive(unittest.TestCase):
    def test_every_caller_calls_until_the_time_is_over(self):
        names = set()

        def find(query):
            self.assertEqual(query["nearest"], 4)
            names.add(threading.current_thread().name)
            time.sleep(0.01)

        latencies, errors, took_s, _ = drive.drive(find, callers=3, duration_s=0.3)
        self.assertEqual(len(names), 3)
        self.assertEqual(errors, 0)
        self.assertGreaterEqual(min(latencies), 10_000)
        self.assertGreaterEqual(took_s, 0.3)
        self.assertGreaterEqual(len(latencies), 3)

    def test_errors_are_counted_told_and_not_repeated_in_a_spin(self):
        def find(_query):
            raise BackEndError("gone")

        begin = time.monotonic()
        latencies, errors, _, last = drive.drive(find, callers=1, duration_s=0.3)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual((latencies, last), ([], "gone"))
        self.assertTrue(1 <= errors <= 1 + 0.3 / drive.AFTER_ERROR_S)
