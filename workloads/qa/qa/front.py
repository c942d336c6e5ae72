"""The front end: Flask under gunicorn, one process with four threads."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any, Protocol

from flask import Flask, Response, jsonify, request
from gunicorn.app.base import BaseApplication
from werkzeug.exceptions import HTTPException

from qa import question
from qa.client import BackEndError, Client
from qa.settings import Settings, read

HOST = "127.0.0.1"
THREADS = 4
"""As in the published experiment."""


class BackEnd(Protocol):
    """What the front end asks."""

    def find(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks nearest to a query."""
        ...

    def ping(self) -> None:
        """Returns if it can be asked."""
        ...


def make_app(back_end: BackEnd) -> Flask:
    """The web application on top of a back end."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = question.MAX_BODY_BYTES

    @app.post("/ask")
    def ask() -> Response:
        if not request.is_json:
            raise question.BadQuestion("send JSON, with Content-Type: application/json")
        text = question.parse(request.get_data(cache=False))
        return jsonify(question.to_answer(text, back_end.find(question.to_query(text))))

    @app.get("/ready")
    def ready() -> Response:
        back_end.ping()
        return jsonify(ready=True)

    @app.errorhandler(question.BadQuestion)
    def bad_question(error: question.BadQuestion) -> tuple[Response, int]:
        return jsonify(error=str(error)), 400

    @app.errorhandler(BackEndError)
    def no_back_end(error: BackEndError) -> tuple[Response, int]:
        return jsonify(error=f"the back end does not answer: {error}"), 503

    @app.errorhandler(HTTPException)
    def other(error: HTTPException) -> tuple[Response, int]:
        return jsonify(error=error.description), error.code or 500

    return app


def make_back_end(kind: str, settings: Settings) -> BackEnd:
    """`stub`, or what the layout asks for: the back end's socket or a finder in here."""
    if kind == "stub":
        from qa.stub import Stub

        return Stub()
    if settings.layout == "split":
        return Client(settings.socket)
    from qa.finder import LibraryFinder

    return LibraryFinder(settings.store, settings.encoder)


class Server(BaseApplication):
    """gunicorn, configured here; the application is made in its worker."""

    def __init__(self, kind: str, settings: Settings) -> None:
        self._kind = kind
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn."""
        for name, value in {
            "bind": f"{HOST}:{self._settings.port}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": THREADS,
            # Longer than a measurement: no connection of the load is closed under it.
            "keepalive": 75,
            # A worker that is silent for so long is started anew: room for the
            # imports of the layout with both parts in one process, emulated.
            "timeout": 120,
            # Calls under way get so long at the end, within the manifest's grace.
            "graceful_timeout": 3,
            "worker_tmp_dir": str(self._settings.run),
            "control_socket_disable": True,
            "chdir": str(self._settings.run),
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called by gunicorn, in the worker."""
        return make_app(make_back_end(self._kind, self._settings))


def port_is_free(port: int, patience_s: float = 3.0) -> bool:
    """Whether we can listen; an earlier front end may take a moment to let go."""
    end = time.monotonic() + patience_s
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return True
            except OSError:
                if time.monotonic() >= end:
                    return False
        time.sleep(0.1)


def main() -> int:
    """Serves until SIGTERM; the argument says which back end."""
    settings = read()
    if not port_is_free(settings.port):
        print(
            f"cannot start the front end: port {settings.port} on {HOST} is in use; "
            "stop what listens there, or choose another with --set port=N",
            file=sys.stderr,
        )
        return 1
    Server(sys.argv[1], settings).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
