"""Main content of web pages: precision, recall and F on labelled text segments, and megabytes of HTML per second and core.

python benchmarks/main_content.py --pages=pages.jsonl.xz

Lines of the pages: {"url", "html" (base64 of the bytes), "with", "without"}: segments of the main content, and of boilerplate.
A segment counts as extracted if it is a substring of the document's text, white space normalised. Prints a row for the extractor
and one for all text of the page, each for both halves of the pages (by a hash of the URL) and for all. The rules were developed
on half 0; two choices between variants were made by the scores on half 1.
"""

import argparse
import base64
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from data_pipeline.sources.html_pages import read_page
from harp_jax.base import files

SOURCE = {"max_page_bytes": 16 << 20}


class Page(NamedTuple):
    """A labelled page; `half` is 0 or 1."""

    html: bytes
    content: list[str]
    boilerplate: list[str]
    half: int


class Score(NamedTuple):
    """Over all segments of the pages."""

    precision: float
    recall: float
    f: float


def labelled_pages(path: str) -> list[Page]:
    found = []
    with files.open_bytes(path) as file:
        for line in file:
            record = json.loads(line)
            half = hashlib.sha256(record["url"].encode()).digest()[-1] % 2
            found.append(Page(base64.b64decode(record["html"]), record["with"], record["without"], half))
    return found


def extracted(page: bytes) -> str:
    """The document's text as the generation job reads it, without the title."""
    return "\n".join(document.text for document in read_page(page, "https://page/", "page", SOURCE, []))


def all_text(page: bytes) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page.decode("utf-8", "replace"))
    tree.strip_tags(["script", "style", "template"])
    return tree.body.text() if tree.body is not None else ""


def score(pages: Sequence[Page], texts: Sequence[str]) -> Score:
    found = wrong = wanted = 0
    for page, text in zip(pages, map(_normalised, texts)):
        wanted += len(page.content)
        found += sum(_normalised(segment) in text for segment in page.content)
        wrong += sum(_normalised(segment) in text for segment in page.boilerplate)
    precision, recall = found / max(1, found + wrong), found / max(1, wanted)
    return Score(precision, recall, 2 * precision * recall / max(1e-9, precision + recall))


def _normalised(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", required=True)
    pages = labelled_pages(parser.parse_args().pages)
    size = sum(len(page.html) for page in pages) / 1e6
    print(f"{len(pages)} pages, {size:.1f} MB of HTML; precision, recall, F of half 0 | half 1 | all")
    rows: list[tuple[str, Callable[[bytes], str]]] = [("main content", extracted), ("all text", all_text)]
    for name, extract in rows:
        start = time.process_time()
        texts = [extract(page.html) for page in pages]
        rate = size / (time.process_time() - start)
        shown = []
        for half in ({0}, {1}, {0, 1}):
            chosen = [(page, text) for page, text in zip(pages, texts) if page.half in half]
            shown.append(" ".join(f"{value:.3f}" for value in score(*map(list, zip(*chosen)))))
        print(f"{name:<14}{' | '.join(shown)}   {rate:.1f} MB/s per core")


if __name__ == "__main__":
    main()
