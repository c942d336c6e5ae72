"""From the HTML pages of a documentation package to chunks of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

MAX_CHUNK_CHARS = 500
MIN_CHUNK_CHARS = 40
"""Shorter ones are captions and stray headings, which answer nothing."""

_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure"),
        *("footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav"),
        *("ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
    )
)
_SILENT = frozenset(("head", "nav", "script", "style"))
_SILENT_CLASSES = frozenset(("navheader", "navfooter", "sphinxsidebar", "related", "toc"))
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Chunk:
    """A piece of a page."""

    text: str
    source: str


class _Text(HTMLParser):
    """Collects the text of a page, a paragraph per block, without navigation."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: list[str] = []
        self._open: list[str] = []
        self._words: list[str] = []
        self._silent_at: int | None = None
        """How many elements were open when the silent one began."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self.end_paragraph()
        if tag in _VOID:
            return
        classes = set((dict(attrs).get("class") or "").split())
        if self._silent_at is None and (tag in _SILENT or classes & _SILENT_CLASSES):
            self._silent_at = len(self._open)
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self.end_paragraph()

    def handle_endtag(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.end_paragraph()
        if tag not in self._open:
            return
        while self._open.pop() != tag:
            pass
        if self._silent_at is not None and len(self._open) <= self._silent_at:
            self._silent_at = None

    def handle_data(self, data: str) -> None:
        if self._silent_at is None:
            self._words.append(data)

    def end_paragraph(self) -> None:
        """What was collected becomes a paragraph."""
        text = " ".join("".join(self._words).split())
        self._words.clear()
        if text:
            self.paragraphs.append(text)


def paragraphs(html: str) -> list[str]:
    """The paragraphs of a page, white space collapsed."""
    parser = _Text()
    parser.feed(html)
    parser.close()
    parser.end_paragraph()
    return parser.paragraphs


def chunks(texts: list[str], limit: int = MAX_CHUNK_CHARS) -> Iterator[str]:
    """Packs paragraphs into chunks of at most `limit` characters.

    Cuts between paragraphs where it can, else between sentences, else between words.
    """
    chunk = ""
    for piece in (piece for text in texts for piece in _pieces(text, limit)):
        joined = f"{chunk}\n{piece}" if chunk else piece
        if len(joined) <= limit:
            chunk = joined
            continue
        yield chunk
        chunk = piece
    if chunk:
        yield chunk


def _pieces(text: str, limit: int) -> Iterator[str]:
    """A paragraph as sentences, or words of long ones, joined up to the limit."""
    if len(text) <= limit:
        yield text
        return
    piece = ""
    for sentence in _SENTENCE_END.split(text):
        for part in [sentence] if len(sentence) <= limit else _words(sentence, limit):
            joined = f"{piece} {part}" if piece else part
            if len(joined) <= limit:
                piece = joined
            else:
                yield piece
                piece = part
    if piece:
        yield piece


def _words(sentence: str, limit: int) -> Iterator[str]:
    """The words of a sentence, those longer than the limit cut."""
    for word in sentence.split():
        for start in range(0, len(word), limit):
            yield word[start : start + limit]


def read(folder: Path) -> list[Chunk]:
    """The chunks of all HTML pages below a folder, in the order of their paths.

    A text that stands on many pages is kept once.
    """
    found: dict[str, Chunk] = {}
    for page in sorted(folder.rglob("*.htm*")):
        if page.suffix not in (".html", ".htm") or not page.is_file():
            continue
        html = page.read_text(encoding="utf-8", errors="replace")
        for text in chunks(paragraphs(html)):
            if len(text) >= MIN_CHUNK_CHARS:
                found.setdefault(text, Chunk(text, str(page.relative_to(folder))))
    return list(found.values())


def spread(all_chunks: list[Chunk], count: int) -> list[Chunk]:
    """`count` chunks taken evenly from the whole, so that every subject is there."""
    if count > len(all_chunks):
        raise ValueError(f"the corpus has {len(all_chunks)} chunks, and {count} were asked for")
    return [all_chunks[place * len(all_chunks) // count] for place in range(count)]
