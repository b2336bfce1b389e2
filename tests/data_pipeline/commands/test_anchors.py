"""`harp anchors`: the counts of anchor texts against a loop over the links of the pages."""

import json
import runpy
from collections import Counter

from data_pipeline.commands.anchors import write_anchors
from harp_jax.ranking.first_stage import anchor_rows, read_anchors
from tests.support import ROOT, corpus


def expected() -> Counter:
    """(page, anchor text) → links, by the addresses of the invented corpus: alias-N leads to pN, "nowhere" to nothing."""
    found: Counter = Counter()
    for number in range(corpus.PAGES):
        page = corpus.page(number)
        for link in page["links"]:
            target = link["target"].replace("alias-", "p")
            if target not in ("nowhere", page["id"]):
                found[target, page["text"][link["start"] : link["end"]]] += 1
    return found


def test_anchor_texts_are_counted_for_their_destinations(tmp_path):
    config = corpus.config(corpus.write(tmp_path / "corpus"))
    counts = write_anchors(config, str(tmp_path / "anchors.tsv"))
    found = {(docid, text): n for docid, text, n in anchor_rows(str(tmp_path / "anchors.tsv"))}
    assert found == expected()
    assert counts[:3] == (len({docid for docid, _ in found}), len(found), sum(found.values()))
    links = sum(len(corpus.page(number)["links"]) for number in range(corpus.PAGES))
    assert counts.links + sum(n for reason, n in counts.dropped.items() if reason.startswith("link-")) == links
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchors.tsv", "corpus"]
    docid, text = next(iter(found))
    assert text in read_anchors(str(tmp_path / "anchors.tsv"))[docid].split("\n")


def test_the_most_frequent_anchor_text_of_a_page_comes_first_in_lower_case(tmp_path):
    pages = [{"id": "m", "title": "", "text": "A channel.", "links": []}]
    for number, names in enumerate(["Mill Race", "old mill", "mill  race", "leat"]):
        link = {"start": 8, "end": 8 + len(names), "target": "m"}
        pages.append({"id": f"p{number}", "title": "", "text": f"See the {names} there.", "links": [link]})
    pages[1]["links"].append({"start": 10, "end": 12, "target": "m"})  # within the other: one of them counts
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    config = runpy.run_path(str(ROOT / "configs" / "data" / "linked_jsonl.py"))["get_config"]()
    config.source.paths = (str(tmp_path / "pages.jsonl"),)
    counts = write_anchors(config, str(tmp_path / "anchors.tsv"))
    assert counts.dropped == {"link-overlap": 1}
    assert (tmp_path / "anchors.tsv").read_text() == "m\tmill race\t2\nm\tleat\t1\nm\told mill\t1\n"
