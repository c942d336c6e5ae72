"""Stands in for the package of this name: its decorators mark, and check nothing.

The real ones compare the signatures of Chroma's methods with those of their base classes
each time Chroma is imported, which is a fifth of that import, and Chroma's own tests' task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def override(method: Callable[..., Any] | None = None, **_options: object) -> Any:  # noqa: ANN401
    """Marks a method, with or without options, and leaves it as it is."""
    return method if method is not None else lambda marked: marked


overrides = override


class EnforceOverrides:
    """A base class that enforces nothing."""
