import contextlib
import io
import socket
import struct
import tempfile
import threading
import time
import unittest
from pathlib import Path

from qa import server as server_module
from qa.client import BackEndError, Client
from qa.server import Server


class Echo:
    """Gives the query back as the only chunk."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.called = threading.Event()

    def find(self, query):
        self.called.set()
        self.may_answer.wait(10)
        if query["text"] == "fail":
            raise KeyError("no such thing")
        return [{"text": query["text"]}]

    def ping(self):
        pass


class ServerAndClient(unittest.TestCase):
    def setUp(self):
        said = contextlib.redirect_stderr(io.StringIO())
        said.__enter__()
        self.addCleanup(said.__exit__, None, None, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "back.sock"
        self.echo = Echo()
        self.start()
        self.addCleanup(self.stop)

    def start(self):
        self.server = Server(self.echo, self.path)
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()

    def stop(self):
        if self.thread.is_alive():
            self.server.stop()
            self.thread.join(10)
        self.assertFalse(self.thread.is_alive())

    def client(self, timeout_s=5.0):
        client = Client(self.path, timeout_s)
        self.addCleanup(client.close)
        return client

    def test_a_call_is_answered_and_the_connection_kept(self):
        client = self.client()
        client.ping()
        for text in ("one", "two"):
            self.assertEqual(client.find({"text": text}), [{"text": text}])

    def test_an_error_of_the_finder_reaches_the_caller_and_the_next_call_works(self):
        client = self.client()
        with self.assertRaisesRegex(BackEndError, "KeyError: 'no such thing'"):
            client.find({"text": "fail"})
        self.assertEqual(client.find({"text": "one"}), [{"text": "one"}])

    def test_a_back_end_that_hangs_is_an_error_after_the_timeout(self):
        self.echo.may_answer.clear()
        begin = time.monotonic()
        with self.assertRaisesRegex(BackEndError, r"no answer within 0\.2 s"):
            self.client(timeout_s=0.2).find({"text": "one"})
        self.assertLess(time.monotonic() - begin, 5)
        self.echo.may_answer.set()

    def test_a_late_answer_is_not_taken_for_the_next_one(self):
        client = self.client(timeout_s=0.2)
        self.echo.may_answer.clear()
        with self.assertRaises(BackEndError):
            client.find({"text": "late"})
        self.echo.may_answer.set()
        self.assertEqual(client.find({"text": "next"}), [{"text": "next"}])

    def test_without_a_back_end_the_error_names_the_socket(self):
        self.stop()
        with self.assertRaisesRegex(BackEndError, "back.sock"):
            self.client().ping()

    def test_a_client_outlives_a_restart_of_the_back_end(self):
        client = self.client()
        client.ping()
        self.stop()
        self.start()
        self.assertEqual(client.find({"text": "again"}), [{"text": "again"}])

    def test_a_stop_lets_the_call_under_way_finish_and_takes_the_socket_away(self):
        self.echo.may_answer.clear()
        answers = []

        def call():
            client = Client(self.path)
            answers.append(client.find({"text": "one"}))
            client.close()

        caller = threading.Thread(target=call)
        caller.start()
        self.assertTrue(self.echo.called.wait(5))
        self.server.stop()
        time.sleep(0.1)
        self.echo.may_answer.set()
        caller.join(10)
        self.stop()
        self.assertEqual(answers, [[{"text": "one"}]])
        self.assertFalse(self.path.exists())

    def test_a_second_stop_after_the_end_does_nothing(self):
        self.stop()
        self.server.stop()

    def test_nonsense_from_one_peer_does_not_disturb_another(self):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(self.path))
            peer.sendall(struct.pack(">I", 1 << 31))
            peer.settimeout(5)
            self.assertEqual(peer.recv(1), b"")
        self.client().ping()

    def test_one_connection_too_many_is_refused_with_a_reason(self):
        kept = []
        for _ in range(server_module.MAX_CONNECTIONS):
            peer = socket.socket(socket.AF_UNIX)
            self.addCleanup(peer.close)
            peer.connect(str(self.path))
            kept.append(peer)
        with self.assertRaisesRegex(BackEndError, "more than .* connections"):
            self.client().ping()
        kept[0].close()
        deadline = time.monotonic() + 5
        while True:
            try:
                return self.client().ping()
            except BackEndError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def test_a_socket_left_by_a_killed_back_end_is_replaced(self):
        self.stop()
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(self.path))
        left.close()
        self.start()
        self.client().ping()
