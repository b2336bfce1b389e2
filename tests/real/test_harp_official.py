"""The HARP authors' own demo data: 95 sentences, 100 anchors, 3 of them malformed."""

import pytest

from data_pipeline.sources import formats
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def test_every_sentence_and_every_anchor_is_accounted_for():
    source = {"format": "harp_json", "paths": (shared("harp_official", "demo_data.jsonl"),), "redirects": ()}
    source["max_page_bytes"] = 2 << 20
    (chunk,) = formats.chunks(source)
    documents, dropped = formats.parse(chunk, source)
    sentences = [document for document in documents if not document.address.startswith("passage-")]
    assert len(sentences) == 95 and sum(len(document.links) for document in sentences) == 97
    assert [(each.reason, each.where.rpartition(" ")[2]) for each in dropped] == [
        ("anchor-malformed", "2"), ("anchor-malformed", "24"), ("anchor-malformed", "95"),
    ]  # fmt: skip
