"""The back end as a process: serves a finder on a Unix socket."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from qa import wire

MAX_CONNECTIONS = 64
"""The front end opens four, the driver as many as it has callers: more is a mistake,
and each costs a thread."""

IDLE_S = 120.0
"""A connection without a message for so long is closed; clients connect anew."""

DRAIN_S = 2.0
"""How long a stop waits for calls under way."""


class Finder(Protocol):
    """What the back end does."""

    def find(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks nearest to a query."""
        ...

    def ping(self) -> None:
        """Returns if it works."""
        ...


class Server:
    """Serves each connection in a thread of its own until `stop`."""

    def __init__(self, finder: Finder, path: Path) -> None:
        self._finder = finder
        self._path = path
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._calls = 0
        self._idle = threading.Condition()
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(MAX_CONNECTIONS)
        self._wake, self._waker = socket.socketpair()

    def stop(self) -> None:
        """Ends `serve`; may be called from a signal handler, and when it has ended."""
        with contextlib.suppress(OSError):
            self._waker.send(b"x")

    def serve(self) -> None:
        """Accepts until stopped, then finishes the calls under way."""
        try:
            while True:
                ready, _, _ = select.select([self._listener, self._wake], [], [])
                if self._wake in ready:
                    return
                peer, _ = self._listener.accept()
                if self._slots.acquire(blocking=False):
                    threading.Thread(target=self._connection, args=(peer,), daemon=True).start()
                else:
                    self._refuse(peer)
        finally:
            self._listener.close()
            self._path.unlink(missing_ok=True)
            with self._idle:
                self._idle.wait_for(lambda: self._calls == 0, DRAIN_S)
            self._wake.close()
            self._waker.close()

    def _connection(self, peer: socket.socket) -> None:
        try:
            with peer:
                peer.settimeout(IDLE_S)
                while (message := wire.receive(peer)) is not None:
                    with self._idle:
                        self._calls += 1
                    try:
                        wire.send(peer, self._answer(message))
                    finally:
                        with self._idle:
                            self._calls -= 1
                            self._idle.notify_all()
        except OSError as error:
            # The peer is gone or talks nonsense: its connection ends, the others stay.
            if not isinstance(error, (TimeoutError, BrokenPipeError, ConnectionResetError)):
                print(f"a connection ends: {error}", file=sys.stderr)
        finally:
            self._slots.release()

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if message.get("ping"):
                self._finder.ping()
                return {"pong": True}
            return {"chunks": self._finder.find(message)}
        except Exception as error:
            # Whatever it is, the caller is told, and the others are served on.
            return {"error": f"{type(error).__name__}: {error}"}

    def _refuse(self, peer: socket.socket) -> None:
        with peer:
            peer.settimeout(1.0)
            with contextlib.suppress(OSError):
                wire.send(peer, {"error": f"more than {MAX_CONNECTIONS} connections"})
