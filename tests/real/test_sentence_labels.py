"""Sentence boundaries in real paragraphs, labelled by hand before the splitter was run on them, and never read to change it.

`sentence_labels.jsonl`: source, document id, start of the paragraph's SHA-256, and the offsets in it where a new sentence
begins; the text itself is in ../shared/data. A sentence ends at a full stop, question or exclamation mark that is not part of a
name or an abbreviation, also inside quotations of several sentences, and includes the bracket or quotation mark that closes it;
semicolons and colons do not end it. First result: 251 of 253 boundaries, and 16 too many.
"""

import hashlib
import json
from collections import Counter

import pytest

from data_pipeline.sources import formats
from data_pipeline.text.sentences import sentences
from tests.support import ROOT
from tests.support.shared_data import shared

pytestmark = pytest.mark.real

LABELS = ROOT / "tests" / "real" / "sentence_labels.jsonl"
FILES = {
    "linked_pages": ("linked_jsonl", "wiki", "linked_pages.jsonl.xz"),
    "enwiki-excerpt": ("mediawiki", "dumps", "enwiki-excerpt.xml.bz2"),
}


def paragraphs(source: str, wanted: set[str]) -> dict[tuple[str, str], str]:
    """(document id, start of the SHA-256) → paragraph, for the wanted documents."""
    form, *path = FILES[source]
    config = {"format": form, "paths": (shared(*path),), "redirects": (), "max_page_bytes": 2 << 20}
    documents = [
        each for chunk in formats.chunks(config) for each in formats.parse(chunk, config)[0] if each.id in wanted
    ]
    both = [(document.id, paragraph) for document in documents for paragraph in document.text.split("\n")]
    return {(name, hashlib.sha256(text.encode()).hexdigest()[:12]): text for name, text in both}


def test_boundaries_of_real_paragraphs():
    rows = [json.loads(line) for line in LABELS.read_text().splitlines()]
    texts = {source: paragraphs(source, {row["id"] for row in rows if row["source"] == source}) for source in FILES}
    counts: Counter[str] = Counter()
    for row in rows:
        starts = {start for start, _ in sentences(texts[row["source"]][row["id"], row["paragraph"]])[1:]}
        labelled = set(row["boundaries"])
        counts.update(right=len(labelled & starts), missed=len(labelled - starts), extra=len(starts - labelled))
    print(f"\n{dict(counts)}")
    assert counts.total() >= 250 and counts["right"] / counts.total() >= 0.95
