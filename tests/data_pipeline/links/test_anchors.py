"""`harp anchors`: the counts of anchor texts against a loop over the links of the pages."""

import json
import runpy
from collections import Counter

import pytest

from data_pipeline.commands.anchors import arguments_parser, main, write_anchors
from data_pipeline.engine.local import SerialEngine
from harp_jax.base.errors import InputError
from harp_jax.ranking.lexical.anchor_texts import read_anchors
from tests.support import ROOT, corpus


def expected(left_out=frozenset()) -> Counter:
    """(page, anchor text) → links, by the addresses of the invented corpus: alias-N leads to pN, "nowhere" to nothing."""
    found: Counter = Counter()
    for number in range(corpus.PAGES):
        page = corpus.page(number)
        for link in page["links"]:
            target = link["target"].replace("alias-", "p")
            if target not in ("nowhere", page["id"]) and page["id"] not in left_out:
                found[target, page["text"][link["start"] : link["end"]]] += 1
    return found


def written(path) -> dict[tuple[str, str], int]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return {(docid, text): int(n) for docid, text, n in rows}


def test_anchor_texts_are_counted_for_their_destinations(tmp_path):
    config = corpus.config(corpus.write(tmp_path / "corpus"))
    counts = write_anchors(config, str(tmp_path / "anchors.tsv"), engine=SerialEngine)
    found = written(tmp_path / "anchors.tsv")
    assert found == expected()
    assert counts[:3] == (len({docid for docid, _ in found}), len(found), sum(found.values()))
    links = sum(len(corpus.page(number)["links"]) for number in range(corpus.PAGES))
    assert counts.links + sum(n for reason, n in counts.dropped.items() if reason.startswith("link-")) == links
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchors.tsv", "corpus"]
    docid, text = next(iter(found))
    assert text in read_anchors(str(tmp_path / "anchors.tsv"))[docid].split("\n")


def test_the_most_frequent_anchor_text_of_a_page_comes_first_in_lower_case(tmp_path):
    pages = []
    for number, names in enumerate(["Mill Race", "old mill", "mill  race", "leat"]):
        text = f"See the {names} there."
        pages.append(
            {
                "id": f"p{number}",
                "title": "",
                "text": text,
                "links": [{"start": 8, "end": 8 + len(names), "target": "m"}],
            }
        )
    pages[0]["links"].append({"start": 10, "end": 12, "target": "m"})  # within the other: one of them counts
    pages.append({"id": "m", "title": "", "text": "A channel.", "links": []})
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    config = runpy.run_path(str(ROOT / "configs" / "data" / "linked_jsonl.py"))["get_config"]()
    config.source.paths = (str(tmp_path / "pages.jsonl"),)
    counts = write_anchors(config, str(tmp_path / "anchors.tsv"), engine=SerialEngine)
    assert counts.dropped == {"link-overlap": 1}
    assert (tmp_path / "anchors.tsv").read_text() == "m\tmill race\t2\nm\tleat\t1\nm\told mill\t1\n"


def test_an_output_that_is_a_source_is_refused(tmp_path):
    config = corpus.config(corpus.write(tmp_path / "corpus"))
    source = tmp_path / "corpus" / "pages-0.jsonl"
    before = source.read_bytes()
    with pytest.raises(InputError, match=r"it is the input .*pages-0\.jsonl, which would be lost"):
        write_anchors(config, str(source), engine=SerialEngine)
    assert source.read_bytes() == before


def test_links_of_pages_that_are_left_out_do_not_count(tmp_path):
    config = corpus.config(corpus.write(tmp_path / "corpus"))
    (tmp_path / "judged").write_text("p3\n\nalias-5\np3\np7\n")  # a redirect stands for its page
    write_anchors(config, str(tmp_path / "anchors.tsv"), str(tmp_path / "judged"), SerialEngine)
    assert written(tmp_path / "anchors.tsv") == expected({"p3", "p5", "p7"})
    (tmp_path / "judged").write_text("p3000\n")
    with pytest.raises(InputError, match="judged: none of its 1 lines names a page"):
        write_anchors(config, str(tmp_path / "more.tsv"), str(tmp_path / "judged"), SerialEngine)
    assert not (tmp_path / "more.tsv").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchors.tsv", "corpus", "judged"]


def test_the_command_needs_config_and_output():
    with pytest.raises(InputError, match="are both needed"):
        main(arguments_parser().parse_args(["--config=data/linked_jsonl"]))
