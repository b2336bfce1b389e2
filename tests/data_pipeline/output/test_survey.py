"""`harp anchors` and the survey of `harp site` against loops over the links; no test query comes from text that training reads."""

import json
from collections import Counter

import pytest

from data_pipeline.engine.local import SerialEngine
from data_pipeline.output.collection import write_anchors
from data_pipeline.output.survey import in_context, is_title, write_survey
from data_pipeline.pipeline import generate
from data_pipeline.tasks.maps import split_of
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.ranking.first_stage import anchor_rows
from tests.support import corpus
from tests.support.generation_job import records

FRACTION, PAGES = 0.4, 40


def page(number: int) -> dict:
    """A page with three links: with a text that no other page uses, one that many use, and the destination's title."""
    linked = [
        (f"gate {'abcdefghij'[number % 10]}{number}", (7 * number + 1) % PAGES),
        (f"weir {number % 5}x", number % 5),
        (f"Lock  {(11 * number + 3) % PAGES}L", (11 * number + 3) % PAGES),
    ]
    text, links = "", []
    for anchor, target in linked:
        links.append({"start": len(text), "end": len(text) + len(anchor), "target": f"p{target}"})
        text += f"{anchor} lets barges pass. "
    return {"id": f"p{number}", "title": f"lock {number}l", "text": text, "links": links}


def config(folder, **fields):
    c = corpus.config(folder, validation_fraction=FRACTION, workers=1, **fields)
    c.source.paths, c.source.redirects = (str(folder / "pages.jsonl"),), ()
    return c


def links() -> list[tuple[str, str, str, int]]:
    """(source page, normalised anchor text, destination, offset) of all links to other pages."""
    rows = []
    for source in map(page, range(PAGES)):
        for link in source["links"]:
            anchor = " ".join(source["text"][link["start"] : link["end"]].lower().split())
            rows.append((source["id"], anchor, link["target"], link["start"]))
    return [row for row in rows if row[0] != row[2]]


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    corpus.write_pages(folder / "pages.jsonl", map(page, range(PAGES)))
    output = folder / "survey"
    return folder, output, write_survey(config(folder), str(output), 1000, 0)


def test_queries_are_the_texts_that_only_held_out_pages_use(survey):
    _, output, summary = survey
    held = {f"p{n}" for n in range(PAGES) if split_of(f"p{n}", FRACTION) == "validation"}
    trained = {anchor for source, anchor, *_ in links() if source not in held}
    of_held = [(anchor, target) for source, anchor, target, _ in links() if source in held]
    titled = [anchor for anchor, _ in of_held if anchor.startswith("lock") and anchor not in trained]
    expected: dict[str, set[str]] = {}
    for anchor, target in of_held:
        if anchor not in trained and anchor not in titled:
            expected.setdefault(anchor, set()).add(target)
    queries, qrels = read_queries(str(output / "queries.tsv")), read_qrels(str(output / "qrels.txt"))
    assert len(expected) > 10 and {queries[qid]: set(judged) for qid, judged in qrels.items()} == expected
    counts = [len(of_held), sum(anchor in trained for anchor, _ in of_held), len(titled)]
    assert [summary[f"held_out_{name}"] for name in ("links", "trained", "titles")] == counts and all(counts)
    rows = (line.split("\t") for line in (output / "sources.tsv").read_text().splitlines())
    sources = {(anchor, source) for source, anchor, *_ in links() if source in held and anchor in expected}
    assert {(queries[qid], source) for qid, source in rows} == sources
    assert {text for _, text, _ in anchor_rows(str(output / "anchors.tsv"))} == trained
    # Sections of a page are held out together.
    assert len({split_of(f"https://x.org/a.html#{name}", 0.5) for name in "abcdefgh"}) == 1


@pytest.mark.real
def test_no_training_pair_has_a_tested_text(survey, tmp_path):
    folder, output, _ = survey
    vocabulary = corpus.write(tmp_path / "corpus") / "vocab.txt"
    job = config(folder, tasks=("adp", "qdm"), encoder="idf", tokenizer=str(vocabulary))
    generate(job, str(tmp_path / "pairs"), SerialEngine)
    text_at = {f"{source}@{start}": anchor for source, anchor, _, start in links()}
    train, validation = (
        {text_at[row["key"].decode()] for row in records(tmp_path / "pairs", f"adp_{split}")}
        for split in ("train", "validation")
    )
    tested = set(read_queries(str(output / "queries.tsv")).values())
    assert train and not tested & train and tested & validation


def test_excluded_pages_are_neither_read_nor_tested(survey, tmp_path):
    c = config(survey[0])
    c.source.exclude = ("p1*", "p[23]?")
    write_survey(c, str(tmp_path / "out"), 300, 0)
    left = {f"p{n}" for n in (0, *range(2, 10))}
    assert {json.loads(line)["id"] for line in (tmp_path / "out" / "docs.jsonl").read_text().splitlines()} == left
    assert {docid for docid, _, _ in anchor_rows(str(tmp_path / "out" / "anchors.tsv"))} <= left


def test_words_of_the_sentence_are_the_nearest_ones_and_titles_are_compared_by_heading():
    sentence = "The gate, says a lock Keeper, opens the Lock at noon, 12, for boats."
    at = sentence.index("Lock")
    assert in_context(sentence, at, at + 4, 4) == "Keeper opens Lock noon boats"
    assert in_context("このカーネルの設定を変更する。", 7, 9, 3, "ja", {"の", "を"}) == "カーネル 設定 変更 する"
    assert is_title("old mill", "Old  Mill") and is_title("water", "Weir: Water") and is_title("weir", "Weir: Water")
    assert not is_title("mill", "Old Mill") and is_title("große straße", "Große Straße")


def test_anchor_texts_of_all_pages_are_counted_for_their_destinations(survey, tmp_path):
    path, expected = str(tmp_path / "anchors.tsv"), Counter((target, anchor) for _, anchor, target, _ in links())
    counts = write_anchors(config(survey[0], linking_pages=0.1), path)
    assert {(docid, text): n for docid, text, n in anchor_rows(path)} == expected
    documents = {docid for docid, _ in expected}
    assert (counts.documents, counts.lines, counts.links) == (len(documents), len(expected), expected.total())


def test_few_texts_in_memory_give_the_same_queries(survey, tmp_path, monkeypatch):
    folder, _, _ = survey
    counts, written = [], []
    for waiting in (16, 2):
        monkeypatch.setattr("data_pipeline.output.survey.WAITING", waiting)
        output = tmp_path / str(waiting)
        counts.append(write_survey(config(folder), str(output), 3, 0)["held_out_texts"])
        written.append([(output / name).read_text() for name in ("queries.tsv", "qrels.txt", "sources.tsv")])
    assert written[0] == written[1] and written[0][0].count("\n") == 3
    assert counts[0] != counts[1] and 0.3 * counts[0] < counts[1] < 3 * counts[0]
