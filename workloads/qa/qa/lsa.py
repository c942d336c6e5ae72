"""Latent semantic analysis: TF-IDF projected on the corpus' main directions.

Fitted with scikit-learn when the workload is prepared. A question is encoded here with
NumPy alone, to the same vector: scikit-learn and SciPy would be half of the imports at
the start, for three lines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy

DIMENSIONS = 128
TOKEN = r"(?u)\b\w\w+\b"
"""scikit-learn's default: words of two letters and more."""

MODEL_FILE = "lsa.npz"
TERMS_FILE = "lsa-terms.json"

_WORDS = re.compile(TOKEN)


class Lsa:
    """A fitted model."""

    def __init__(self, terms: list[str], weights: numpy.ndarray, axes: numpy.ndarray) -> None:
        """`weights`: a term's inverse document frequency; `axes`: a row per term."""
        self._rows = {term: row for row, term in enumerate(terms)}
        self._weights = weights
        self._axes = axes

    @classmethod
    def load(cls, folder: Path) -> Lsa:
        """Reads a model that `save` wrote."""
        terms = json.loads((folder / TERMS_FILE).read_text(encoding="utf-8"))
        with numpy.load(folder / MODEL_FILE) as arrays:
            return cls(terms, arrays["weights"], arrays["axes"])

    def save(self, folder: Path) -> None:
        """Writes the model."""
        (folder / TERMS_FILE).write_text(json.dumps(list(self._rows)), encoding="utf-8")
        numpy.savez(folder / MODEL_FILE, weights=self._weights, axes=self._axes)

    def encode(self, text: str) -> numpy.ndarray:
        """The embedding of a text; of one without a known word, the first axis."""
        words = Counter(_WORDS.findall(text.lower()))
        known = [(self._rows[word], count) for word, count in words.items() if word in self._rows]
        if not known:
            return _first_axis()
        rows, counts = (numpy.array(column) for column in zip(*known, strict=True))
        vector = ((1.0 + numpy.log(counts)) * self._weights[rows]) @ self._axes[rows]
        length = numpy.linalg.norm(vector)
        return (vector / length).astype(numpy.float32) if length > 0 else _first_axis()


def _first_axis() -> numpy.ndarray:
    """A vector for texts that say nothing: cosine needs one that is not zero."""
    vector = numpy.zeros(DIMENSIONS, dtype=numpy.float32)
    vector[0] = 1.0
    return vector


def fit(texts: list[str]) -> tuple[Lsa, numpy.ndarray]:
    """Fits a model; gives it and the embeddings of the texts."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        token_pattern=TOKEN, stop_words="english", min_df=2, sublinear_tf=True, norm=None
    )
    table = vectorizer.fit_transform(texts)
    if min(table.shape) <= DIMENSIONS:
        raise ValueError(
            f"{table.shape[0]} chunks with {table.shape[1]} words are too few "
            f"for {DIMENSIONS} dimensions"
        )
    axes = TruncatedSVD(DIMENSIONS, random_state=0).fit(table).components_.T
    model = Lsa(
        list(vectorizer.get_feature_names_out()),
        vectorizer.idf_.astype(numpy.float32),
        axes.astype(numpy.float32),
    )
    return model, numpy.stack([model.encode(text) for text in texts])
