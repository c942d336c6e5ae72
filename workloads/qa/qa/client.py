"""The front end's side of the socket to the back end."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

from qa import wire

TIMEOUT_S = 8.0
"""Below the load tool's 10 s, so that a back end that hangs is an answer with status
503, not a timeout. Emulated and with the sentence model, a call takes 4 s."""


class BackEndError(RuntimeError):
    """The back end does not answer, or answers with an error."""


class Client:
    """Calls the back end; each thread that calls keeps a connection of its own."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._kept = threading.local()

    def find(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks nearest to a query; raises `BackEndError`."""
        return self._call(query)["chunks"]

    def ping(self) -> None:
        """Raises `BackEndError` unless the back end answers."""
        self._call({"ping": True})

    def close(self) -> None:
        """Closes the connection of the calling thread."""
        peer = getattr(self._kept, "peer", None)
        if peer is not None:
            peer.close()
            self._kept.peer = None

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            response = self._exchange(message)
        except TimeoutError:
            self.close()
            raise BackEndError(f"no answer within {self._timeout_s:g} s") from None
        except OSError as error:
            self.close()
            raise BackEndError(f"{self._path}: {error}") from None
        if "error" in response:
            raise BackEndError(str(response["error"]))
        return response

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sends and receives; a kept connection that broke meanwhile is made anew once."""
        if getattr(self._kept, "peer", None) is not None:
            try:
                return self._once(self._kept.peer, message)
            except ConnectionError:
                self.close()
        return self._once(self._connect(), message)

    def _once(self, peer: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
        wire.send(peer, message)
        response = wire.receive(peer)
        if response is None:
            raise wire.WireError("the back end closed the connection")
        return response

    def _connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(self._timeout_s)
        try:
            peer.connect(str(self._path))
        except OSError:
            peer.close()
            raise
        self._kept.peer = peer
        return peer
