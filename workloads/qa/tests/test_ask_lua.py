import json
import os
import shutil
import subprocess
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from qa import question

FOLDER = Path(__file__).parent.parent
ANSWER = b'{"answers":[]}'


class Front(ThreadingHTTPServer):
    """Answers questions; every tenth late, every seventh with 503 if asked to."""

    daemon_threads = True

    def __init__(self, late_s=0.0, fail=False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.late_s, self.fail = late_s, fail
        self.lock = threading.Lock()
        self.count = 0
        self.questions = set()
        self.latencies = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Connections that wrk resets at its end are none."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        front = self.server
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        with front.lock:
            front.count += 1
            count = front.count
            front.questions.add(question.parse(asked))
        time.sleep(front.late_s if count % 10 == 0 else 0.005)
        status = 503 if front.fail and count % 7 == 0 else 200
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
        self.wfile.write(head.encode() + ANSWER)

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("wrk"), "the package wrk is not installed")
class Load(unittest.TestCase):
    def front(self, **kwargs):
        front = Front(**kwargs)
        self.addCleanup(front.server_close)
        self.addCleanup(front.shutdown)
        return front

    def load(self, port, seconds=2):
        environment = os.environ | {
            "METASCHED_DURATION_S": str(seconds),
            "METASCHED_PARAM_PORT": str(port),
        }
        return subprocess.run(
            ["bash", FOLDER / "load.sh"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def figures(self, front, **kwargs):
        done = self.load(front.server_port, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("METASCHED "))
        return json.loads(line.removeprefix("METASCHED "))

    def test_the_histogram_holds_each_response_and_no_invented_one(self):
        front = self.front(late_s=0.25)
        figures = self.figures(front)
        counts = figures["histogram"]
        self.assertEqual(sum(count for _, count in counts), figures["requests"])
        self.assertEqual(figures["errors"], 0)
        # One in ten is late; wrk's own guesses would put half of all between the two.
        late = sum(count for value, count in counts if value >= 250_000)
        between = sum(count for value, count in counts if 150_000 <= value < 250_000)
        self.assertGreater(late, figures["requests"] * 0.05)
        self.assertLess(between, figures["requests"] * 0.02)
        self.assertEqual(figures["max_us"], counts[-1][0])
        mean = sum(value * count for value, count in counts) / figures["requests"]
        self.assertAlmostEqual(figures["mean_us"], mean, delta=1)
        self.assertLessEqual(figures["p50_us"], figures["p99_us"])
        self.assertGreater(len(front.questions), 3)

    def test_answers_with_an_error_status_count_as_errors(self):
        front = self.front(fail=True)
        figures = self.figures(front)
        self.assertAlmostEqual(
            figures["errors"] / (figures["errors"] + figures["requests"]), 1 / 7, delta=0.02
        )
        rate = figures["requests"] / figures["duration_s"]
        self.assertAlmostEqual(figures["throughput_per_s"], rate, delta=0.01)

    def test_without_a_front_end_the_load_fails_at_once(self):
        front = self.front()
        front.shutdown()
        front.server_close()
        begin = time.monotonic()
        done = self.load(front.server_port, seconds=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("unable to connect", done.stderr)
        self.assertLess(time.monotonic() - begin, 20)
