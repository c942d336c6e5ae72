"""The back end of the front end measured alone: always the same data."""

from __future__ import annotations

from typing import Any

_CHUNKS: list[dict[str, Any]] = [
    {
        "text": f"Chunk {number} of a fixed answer. " + "It is as long as a real one. " * 15,
        "source": f"stub-{number}.html",
        "distance": 0.125 * number,
    }
    for number in range(1, 5)
]


class Stub:
    """Answers like a back end, at once."""

    def find(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The same chunks for every query."""
        return _CHUNKS[: query["nearest"]]

    def ping(self) -> None:
        """Always there."""
