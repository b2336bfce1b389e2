"""The part of a document that answers a query: the window with most of its words, in segments that match or not."""

import re
from collections.abc import Collection

from harp_jax.text.stems import Stemmer

WORD = re.compile(r"\w+")
READ = 20_000  # characters of a document that are searched
WINDOW = 36  # words of a snippet

Segments = list[tuple[str, bool]]  # (text, whether it is a word of the query)


def snippet(wanted: Collection[str], text: str, stemmer: Stemmer | None) -> Segments:
    """The window of `text` with the most different `wanted` stems, the first of equals; its start where none match."""
    text = " ".join(text[:READ].split())
    spans = [match.span() for match in WORD.finditer(text)]
    if not spans:
        return [(text[:200], False)] if text else []
    stems = _stems([text[start:end] for start, end in spans], stemmer)
    matches = [place for place, stem in enumerate(stems) if stem in wanted]
    first = 0
    if matches:
        starts = [max(0, min(place - WINDOW // 4, len(spans) - WINDOW)) for place in matches]
        first = max(starts, key=lambda start: (len(set(wanted).intersection(stems[start : start + WINDOW])), -start))
    last = min(first + WINDOW, len(spans))
    found: Segments = []
    at = spans[first][0] if first else 0
    for place in range(first, last):
        start, end = spans[place]
        if stems[place] in wanted:
            found += [(text[at:start], False), (text[start:end], True)]
            at = end
    end = spans[last][0] if last < len(spans) else len(text)
    found.append((text[at:end].rstrip(), False))
    return [
        *([("… ", False)] if first else []),
        *((part, matched) for part, matched in found if part),
        *([(" …", False)] if last < len(spans) else []),
    ]


def _stems(words: list[str], stemmer: Stemmer | None) -> list[str]:
    lowered = [word.lower() for word in words]
    return stemmer.stemWords(lowered) if stemmer else lowered
