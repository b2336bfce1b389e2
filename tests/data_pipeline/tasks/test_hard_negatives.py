"""The negatives of ADP: BM25 against a slow version, its slices, and the job."""

import json
import math

import numpy as np
import pytest

from data_pipeline.config import plain
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.store import buckets, read
from data_pipeline.engine.tables import unpack
from data_pipeline.pipeline import generate
from data_pipeline.tasks import adp
from data_pipeline.tasks.adp import K1, B, Slice, mine
from data_pipeline.text.terms import load_terms
from harp_jax.base.randomness import generator
from tests.support import corpus
from tests.support.generation_job import table


def bm25(query, text, texts):
    mean = sum(map(len, texts)) / len(texts)
    score = 0.0
    for piece in set(query):
        found = sum(piece in other for other in texts)
        tf = text.count(piece)
        idf = math.log(1 + (len(texts) - found + 0.5) / (found + 0.5))
        score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(text) / mean))
    return score


def test_search_agrees_with_a_slow_bm25_and_breaks_ties_by_place():
    rng = generator("slice")
    texts = [rng.integers(0, 30, int(rng.integers(1, 12))).tolist() for _ in range(60)]
    texts += texts[:5]
    pages = Slice(np.arange(100, 165), np.zeros(65, np.int64), [np.array(text, np.int32) for text in texts])
    for number in range(40):
        query = rng.integers(0, 40, 4).tolist()
        without = 100 + number
        scores = [0.0 if 100 + i == without else bm25(query, text, texts) for i, text in enumerate(texts)]
        found = [i for i, score in enumerate(scores) if score > 0]
        wanted = sorted(found, key=lambda i: (-round(scores[i], 9), i))[:10]
        assert pages.search(query, 10, without).tolist() == wanted
    assert len(pages.search([99], 10, 0)) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = corpus.write(tmp_path_factory.mktemp("hard"))
    config = corpus.config(folder, tasks=("adp",), workers=1, keep_work=True, adp_window=3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adp, "SLICE", 20)
        generate(config, str(folder / "out"), SerialEngine)
        yield {"work": str(folder / "out" / ".work"), "config": plain(config)}


def test_negatives_share_a_word_with_the_anchor_and_are_not_the_positive(made):
    terms = load_terms(made["config"]["tokenizer"], "", "words")
    passages = {row["doc"]: set(unpack(row["tokens"])) for row in read(made, "passages").to_pylist()}
    requests = {row["key"]: row for row in read(made, "requests").to_pylist()}
    negatives = {row["key"]: row["destination"] for row in read(made, "mined").to_pylist()}
    assert len(negatives) > 0.5 * len(requests) > 100
    for key, doc in negatives.items():
        anchor = set(terms.ids(requests[key]["anchor"].split()))
        assert doc != requests[key]["positive"] and anchor & passages[doc]


def test_with_a_window_the_anchor_stands_in_the_query_as_in_its_sentence(made):
    """Sampled words would stand between the anchor's words, and in another order than the sentence's."""
    texts = [row["words"].split() for row in read(made, "sentences").to_pylist()]
    sentences = [" ".join(filter(str.isalnum, words)) for words in texts]
    decode = load_terms(made["config"]["tokenizer"], "", "words").tokenizer.decode
    rows = read(made, "requests").to_pylist()
    queries = [decode(np.frombuffer(row["query"], np.int32)) for row in rows]
    assert len({len(query.split()) - len(row["anchor"].split()) for row, query in zip(rows, queries)}) > 3
    for row, query in zip(rows, queries):
        assert row["anchor"] in query and any(query in text for text in sentences)


def test_a_slice_has_the_passages_of_its_bucket_first(made):
    assert len(buckets(made, "passages")) > 1
    for number in buckets(made, "requests"):
        others = {row["destination"] for row in mine(made, number, None)["mined"].to_pylist()}
        own = set(read(made, "passages", number).column("doc").to_pylist())
        assert others & own and len(others) <= 20


def test_pages_without_links_are_no_negatives_where_text_tasks_read_them(tmp_path):
    """Beside PROP, in-links told .98 of ADP's pairs apart: the job has passages of all pages then."""
    folder = corpus.write(tmp_path)
    pages = [json.loads(line) for line in (folder / "pages-0.jsonl").read_text().splitlines()]
    copies = [page | {"id": f"copy-{n}", "links": []} for n, page in enumerate(pages)]
    (folder / "pages-9.jsonl").write_text("".join(json.dumps(page) + "\n" for page in copies))
    found = []
    for tasks in (("adp",), ("adp", "prop")):
        out = folder / "-".join(tasks)
        generate(corpus.config(folder, tasks=tasks, workers=1, keep_work=True), str(out), SerialEngine)
        addresses = {row["doc"]: row["id"] for row in table(out, "pages")}
        found.append({(row["key"], addresses[row["destination"]]) for row in table(out, "mined")})
    assert len(found[0]) > 100 and found[0] == found[1]
