"""Messages between front end and back end: JSON behind its length.

    0      4                4 + length
    +------+----------------+
    |length| JSON, UTF-8    |    length: 32 bits, big-endian
    +------+----------------+

A request is a query (`question.to_query`) or `{"ping": true}`; a response has either
`chunks`, `pong` or `error`.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MAX_MESSAGE_BYTES = 1 << 20
"""More than any answer: a longer message is a peer that talks something else."""

_LENGTH = struct.Struct(">I")


class WireError(ConnectionError):
    """The peer broke off or does not keep to the protocol."""


def send(peer: socket.socket, message: dict[str, Any]) -> None:
    """Sends one message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {len(body)} bytes is too long to send")
    peer.sendall(_LENGTH.pack(len(body)) + body)


def receive(peer: socket.socket) -> dict[str, Any] | None:
    """The next message, or `None` if the peer closed between two messages."""
    head = _exactly(peer, _LENGTH.size, start=True)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_MESSAGE_BYTES:
        raise WireError(f"the peer announces {length} bytes, more than a message can have")
    body = _exactly(peer, length)
    try:
        message = json.loads(body or b"")
    except ValueError as error:
        raise WireError(f"the peer sent no JSON: {error}") from None
    if not isinstance(message, dict):
        raise WireError("the peer sent JSON that is not an object")
    return message


def _exactly(peer: socket.socket, count: int, *, start: bool = False) -> bytes | None:
    """The next `count` bytes; `None` if the peer closed before the first of a message."""
    parts: list[bytes] = []
    missing = count
    while missing:
        part = peer.recv(missing)
        if not part:
            if start and missing == count:
                return None
            raise WireError(f"the peer broke off with {missing} of {count} bytes missing")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
