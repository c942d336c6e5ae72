"""What a client may ask, and what the back end is asked in turn."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

MAX_BODY_BYTES = 16 * 1024
"""A longer request is refused before it is read."""

MAX_QUESTION_CHARS = 1000
"""Two full chunks: longer than any question of a person."""

NEAREST = 4
"""How many chunks answer a question."""


class BadQuestion(ValueError):
    """The client's mistake, in words for the client."""


def parse(body: bytes) -> str:
    """The question in a request's body; raises `BadQuestion`."""
    try:
        payload = json.loads(body)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadQuestion(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadQuestion("the body is nested too deeply") from None
    if not isinstance(payload, dict):
        raise BadQuestion('the body must be an object such as {"question": "..."}')
    unknown = sorted(set(payload) - {"question"})
    if unknown:
        raise BadQuestion(f"there is no field '{unknown[0]}'; send 'question' only")
    question = payload.get("question")
    if not isinstance(question, str):
        raise BadQuestion("'question' must be there and be a string")
    if len(question) > MAX_QUESTION_CHARS:
        raise BadQuestion(
            f"'question' has {len(question)} characters; at most {MAX_QUESTION_CHARS} are taken"
        )
    if not tidy(question):
        raise BadQuestion("'question' is empty")
    return question


def tidy(question: str) -> str:
    """The question with one form per letter, no control characters, single spaces."""
    folded = unicodedata.normalize("NFKC", question)
    printable = "".join(
        " " if unicodedata.category(letter).startswith("C") else letter for letter in folded
    )
    return " ".join(printable.split())


def to_query(question: str) -> dict[str, Any]:
    """The payload for the back end."""
    return {"text": tidy(question), "nearest": NEAREST}


def to_answer(question: str, chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The response to the client, the nearest chunk first."""
    return {
        "question": tidy(question),
        "answers": [
            {
                "text": chunk["text"],
                "source": chunk["source"],
                "similarity": round(1.0 - chunk["distance"], 4),
            }
            for chunk in chunks
        ],
    }
