"""The back end's work: a question's embedding, then the nearest chunks in Chroma."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy

COLLECTION = "chunks"
STORE_FOLDER = "chroma"
MODEL_FOLDER = "model"


class Encoder(Protocol):
    """Turns texts into vectors of length one."""

    def encode(self, text: str) -> numpy.ndarray:
        """The embedding of a text."""
        ...


def open_encoder(name: str, folder: Path) -> Encoder:
    """The encoder of this name, its model read from `folder`."""
    if name == "lsa":
        from qa.lsa import Lsa

        return Lsa.load(folder)
    from qa.minilm import MiniLm

    return MiniLm.load(folder)


class LibraryFinder:
    """Finds chunks in the collection of a store."""

    def __init__(self, store: Path, encoder: str) -> None:
        import chromadb
        from chromadb.config import Settings

        self._encoder = open_encoder(encoder, store / MODEL_FOLDER)
        client = chromadb.PersistentClient(
            str(store / STORE_FOLDER), Settings(anonymized_telemetry=False)
        )
        self._collection = client.get_collection(COLLECTION, embedding_function=None)
        # The first query reads the index; no client is to wait for that.
        self.find({"text": "warm up", "nearest": 1})

    def find(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks nearest to the query's text by cosine, the nearest first."""
        vector = self._encoder.encode(query["text"])
        found = self._collection.query(
            query_embeddings=[vector],
            n_results=query["nearest"],
            include=["documents", "metadatas", "distances"],
        )
        return [
            {"text": text, "source": metadata["source"], "distance": distance}
            for text, metadata, distance in zip(
                found["documents"][0], found["metadatas"][0], found["distances"][0], strict=True
            )
        ]

    def ping(self) -> None:
        """Works once it was made."""
