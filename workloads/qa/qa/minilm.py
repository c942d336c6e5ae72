"""The sentence model all-MiniLM-L6-v2, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy

MODEL_FILE = "minilm.onnx"
TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENS = 256
"""The model was trained with so many; what is longer is cut, as its authors do."""

BATCH = 32
"""Texts per run when the corpus is encoded: beyond it nothing gets faster."""


class MiniLm:
    """The model and its tokenizer."""

    def __init__(self, model: Path, tokenizer: Path, threads: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    @classmethod
    def load(cls, folder: Path, threads: int = 1) -> MiniLm:
        """Reads the model.

        With one thread, as in the service: the four requests in flight are the
        parallelism, and workers of the library's own would spin for each other.
        """
        return cls(folder / MODEL_FILE, folder / TOKENIZER_FILE, threads)

    def encode(self, text: str) -> numpy.ndarray:
        """The embedding of a text."""
        return self._run([self._tokenizer.encode(text).ids])[0]

    def encode_all(self, texts: list[str]) -> numpy.ndarray:
        """The embeddings of many texts, those of one length together: no padding."""
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        by_length = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        vectors: dict[int, numpy.ndarray] = {}
        start = 0
        while start < len(by_length):
            length = len(ids[by_length[start]])
            batch = [
                place for place in by_length[start : start + BATCH] if len(ids[place]) == length
            ]
            vectors.update(zip(batch, self._run([ids[place] for place in batch]), strict=True))
            start += len(batch)
        return numpy.stack([vectors[place] for place in range(len(ids))])

    def _run(self, ids: list[list[int]]) -> numpy.ndarray:
        table = numpy.array(ids, dtype=numpy.int64)
        positions = numpy.arange(table.shape[1], dtype=numpy.int64)
        (vectors,) = self._session.run(None, {"ids": table, "positions": positions})
        return vectors
