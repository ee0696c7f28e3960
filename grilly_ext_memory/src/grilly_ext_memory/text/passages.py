"""Cutting documents into passages, and showing the part of a passage that answers a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["passages", "snippet"]

_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_WORD: Final = re.compile(r"\w+")


def passages(text: str, size: int = 800) -> Iterator[str]:
    r"""Yield passages of whole paragraphs, of about `size` characters at most; long paragraphs are cut at spaces.

    Examples
    --------
    >>> from grilly_ext_memory.text.passages import passages
    >>> list(passages("one\n\ntwo\n\nthree four", 9))
    ['one\n\ntwo', 'three', 'four']
    """
    if size < 1:
        raise ValueError(f"passages: size must be positive; received {size}.")
    held = ""
    for paragraph in filter(None, (part.strip() for part in _PARAGRAPH.split(text))):
        joined = f"{held}\n\n{paragraph}" if held else paragraph
        if len(joined) <= size:
            held = joined
            continue
        if held:
            yield held
        *whole, held = _pieces(paragraph, size)
        yield from whole
    if held:
        yield held


def _pieces(paragraph: str, size: int) -> list[str]:
    found = []
    while len(paragraph) > size:
        cut = paragraph.rfind(" ", 1, size + 1)
        cut = size if cut <= 0 else cut
        found.append(paragraph[:cut].rstrip())
        paragraph = paragraph[cut:].lstrip()
    return [*found, paragraph]


def snippet(text: str, query: str, width: int = 160) -> str:
    """Return the part of a text with the most of the query's words, on one line.

    Examples
    --------
    >>> from grilly_ext_memory.text.passages import snippet
    >>> snippet("nothing here. " * 20 + "The answer is inside. " + "no more. " * 20, "answer inside", 40)
    '…here. The answer is inside. no more. no…'
    """
    flat = " ".join(text.split())
    if len(flat) <= width:
        return flat
    wanted = {word.casefold() for word in _WORD.findall(query)}
    hits = [(m.start(), m.end()) for m in _WORD.finditer(flat) if m[0].casefold() in wanted]
    best, most = 0, -1
    for start, _ in hits or [(0, 0)]:
        end = start + width // 2
        inside = sum(start <= a and b <= end for a, b in hits)
        if inside > most:
            best, most = start, inside
    start = max(0, min(best - width // 3, len(flat) - width))
    if start:
        start = flat.find(" ", start) + 1 or start
    end = len(flat) if start + width >= len(flat) else flat.rfind(" ", start, start + width)
    shown = flat[start : end if end > start else start + width]
    return ("…" if start else "") + shown + ("…" if start + len(shown) < len(flat) else "")
