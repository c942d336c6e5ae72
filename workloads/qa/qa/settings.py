"""What the manifest's parameters and the tool's environment say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The settings of one run."""

    port: int
    layout: str
    encoder: str
    run: Path
    callers: int
    duration_s: float

    @property
    def store(self) -> Path:
        """The folder of the staged Chroma collection and the encoder's model."""
        return self.run / "store"

    @property
    def socket(self) -> Path:
        """The Unix socket on which the back end listens."""
        return self.run / "back.sock"


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings; raises `ValueError` naming the variable that is wrong."""
    return Settings(
        port=_number(environment, "METASCHED_PARAM_PORT", 1, 65535),
        layout=_choice(environment, "METASCHED_PARAM_LAYOUT", ("split", "single")),
        encoder=_choice(environment, "METASCHED_PARAM_ENCODER", ("lsa", "minilm")),
        run=Path(_text(environment, "METASCHED_RUN")),
        callers=_number(environment, "METASCHED_PARAM_CALLERS", 1, 64),
        duration_s=float(environment.get("METASCHED_DURATION_S") or 0),
    )


def _text(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ValueError(f"{name} is not set; start this through metasched")
    return value


def _number(environment: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = _text(environment, name)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{name} is '{text}'; give a whole number from {least} to {most}")
    return int(text)


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = _text(environment, name)
    if text not in choices:
        raise ValueError(f"{name} is '{text}'; give one of {', '.join(choices)}")
    return text
