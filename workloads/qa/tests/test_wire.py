import socket
import struct
import unittest

from qa import wire


class Wire(unittest.TestCase):
    def setUp(self):
        self.here, self.there = socket.socketpair()
        self.here.settimeout(5)
        self.there.settimeout(5)

    def tearDown(self):
        self.here.close()
        self.there.close()

    def broken(self, data, words):
        self.here.sendall(data)
        self.here.close()
        with self.assertRaises(wire.WireError) as caught:
            wire.receive(self.there)
        self.assertIn(words, str(caught.exception))

    def test_messages_arrive_one_by_one_and_whole(self):
        first, second = {"text": "Zürich"}, {"chunks": [{"text": "x" * 10_000}]}
        wire.send(self.here, first)
        wire.send(self.here, second)
        self.assertEqual(wire.receive(self.there), first)
        self.assertEqual(wire.receive(self.there), second)

    def test_a_close_between_messages_is_an_end_and_no_error(self):
        wire.send(self.here, {})
        self.here.close()
        self.assertEqual(wire.receive(self.there), {})
        self.assertIsNone(wire.receive(self.there))

    def test_a_close_within_a_message_is_an_error(self):
        self.broken(struct.pack(">I", 10) + b"{}", "8 of 10 bytes missing")

    def test_a_close_within_the_length_is_an_error(self):
        self.broken(b"\0\0", "2 of 4 bytes missing")

    def test_a_peer_that_talks_http_is_refused_without_waiting_for_a_gigabyte(self):
        self.broken(b"GET / HTTP/1.0\r\n", "more than a message can have")

    def test_what_is_not_a_json_object_is_refused(self):
        self.broken(struct.pack(">I", 3) + b"abc", "no JSON")

    def test_json_that_is_not_an_object_is_refused(self):
        self.broken(struct.pack(">I", 2) + b"[]", "not an object")

    def test_a_message_too_long_is_not_sent(self):
        with self.assertRaises(wire.WireError):
            wire.send(self.here, {"text": "x" * wire.MAX_MESSAGE_BYTES})
