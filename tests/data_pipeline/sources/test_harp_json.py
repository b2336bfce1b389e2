import json

import pytest

from harp_jax.base.errors import InputError
from tests.support import source_reading


def line(tokens, *anchors):
    return {"sentence": " ".join(tokens), "tokenized_sentence": tokens, "anchors": [[anchor] for anchor in anchors]}


def anchor(text, first, last, passage="A passage."):
    return {"text": text, "pos": [first, last], "passage": passage}


def read(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records))
    return source_reading.read(source_reading.source("harp_json", path))


def test_sentences_and_passages(tmp_path):
    tokens = ["The", "“old", "town”,", "by", "the", "River", "Ä."]
    documents, dropped = read(
        tmp_path / "a.jsonl",
        line(tokens, anchor("old town", 1, 2), anchor("River Ä", 5, 6, "A river."), anchor("by", 3, 3)),
        line(["No", "link"]),
    )
    sentence, town, river, other = documents
    assert [sentence.text[start:end] for start, end, _ in sentence.links] == ["old town", "by", "River Ä"]
    assert [link.target for link in sentence.links] == [town.address, town.address, river.address]
    assert (town.text, town.lead_end, river.text, other.text) == ("A passage.", 10, "A river.", "No link")
    assert dropped == [] and len({document.id for document in documents}) == 4


@pytest.mark.parametrize(
    "bad",
    [
        anchor("a b", 1, 0), anchor("a b", 0, 2), anchor("a b", -1, 1), anchor("a", 0, 1), anchor("b", 0, 0),
        anchor("", 0, 0), anchor("a", 0, 0, ""), {"text": "a", "pos": [0, 0]}, {"pos": [0, 0], "passage": "p"},
        {"text": "a", "pos": [0], "passage": "p"}, {"text": "a", "pos": ["0", 0], "passage": "p"}, "a", None, 3,
    ],
)  # fmt: skip
def test_malformed_anchors_are_counted(tmp_path, bad):
    documents, dropped = read(tmp_path / "a.jsonl", line(["a", "b"], bad, anchor("b", 1, 1)))
    assert len(documents[0].links) == 1 and [each.reason for each in dropped] == ["anchor-malformed"]
    assert dropped[0].where.endswith("a.jsonl line 1")


@pytest.mark.parametrize(
    "record", [{"sentence": "a"}, {"tokenized_sentence": ["a"]}, {"tokenized_sentence": [1], "anchors": []}]
)
def test_other_lines_are_input_errors(tmp_path, record):
    with pytest.raises(InputError, match="line 1"):
        read(tmp_path / "a.jsonl", record)
