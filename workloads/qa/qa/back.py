"""The back end's process."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> int:
    """Serves until SIGTERM or SIGINT."""
    from qa import settings
    from qa.finder import LibraryFinder
    from qa.server import Server

    given = settings.read()
    finder = LibraryFinder(given.store, given.encoder)
    gc.enable()
    server = Server(finder, given.socket)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    print(f"the back end listens on {given.socket}", flush=True)
    server.serve()
    return 0


if __name__ == "__main__":
    # Importing makes much and drops little: collecting meanwhile costs a tenth of the start.
    gc.disable()
    sys.exit(main())
