"""The library: plain data in and out, examples that run, and an import that loads nothing heavy."""

import math
import re
import sys

import jax
import pandas
import pytest

import harp_jax as hj
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.train import train
from tests.support import ROOT, corpus
from tests.support.commands import python
from tests.support.ranking_collection import ranking_config, write_collection
from tests.support.tiny_bert import random_params, save_encoder

HEAVY = ("jax", "numpy", "flax", "optax", "orbax", "transformers", "tokenizers", "tensorflow", "pyarrow", "pandas")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory as the examples expect it: a collection, a ranker, a sentence encoder, linked pages."""
    path = write_collection(tmp_path_factory.mktemp("library"))
    (path / "run.trec").rename(path / "bm25.trec")
    (path / "tokenizer").rename(path / "vocabulary")
    words = load_tokenizer(str(path / "vocabulary"))
    shape = BertShape(words.size, layers=1, hidden=32, heads=2, intermediate=64, max_positions=64)
    save_hf(str(path / "ranker"), shape, random_params(shape), words, "")
    save_encoder(str(path / "sentence-encoder"), words, 64, Embedding("mean", ("Normalize",), max_length=64))
    corpus.write(path / "wiki", files=1)
    (path / "wiki" / "pages-0.jsonl").rename(path / "pages.jsonl")
    (path / "wiki" / "vocab.txt").rename(path / "wordpieces.txt")
    return path


def test_the_import_loads_nothing_heavy_and_a_ranker_neither_torch_nor_tensorflow(place):
    code = (
        f"import sys, harp_jax as hj; dir(hj); print([m for m in {HEAVY!r} if m in sys.modules])\n"
        "hj.Reranker.from_pretrained('ranker').rerank('w1', ['w1 w2', 'w3'])\n"
        "print([m for m in ('torch', 'tensorflow', 'transformers') if m in sys.modules])"
    )
    assert python("-c", code, cwd=place, PYTHONPATH=str(ROOT)).stdout == "[]\n[]\n"


EXAMPLES = """
import doctest, sys
import harp_jax as hj
texts = {name: getattr(hj, name).__doc__ for name in hj.__all__} | {"docs/library.md": open(sys.argv[1]).read()}
for name, text in texts.items():
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    ran = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    print(f"{name}: {ran.attempted} examples, {ran.failed} failures")
"""


@pytest.mark.real
def test_examples_run(place):
    """Each function's docstring, and docs/library.md as one session, on one device."""
    config = ranking_config(place, steps=3, candidates=str(place / "bm25.trec"), tokenizer=str(place / "vocabulary"))
    train(config, str(place / "runs" / "ranker"), devices=jax.devices()[:1])
    page = ROOT / "docs" / "library.md"
    printed = python("-c", EXAMPLES, page, cwd=place, XDG_CACHE_HOME=str(place / "cache")).stdout
    ran = re.findall(r"^(\S+): \d+ examples, 0 failures$", printed, re.MULTILINE)
    assert set(ran) == {*hj.__all__, "docs/library.md"}, printed


@pytest.fixture(scope="module")
def model(place):
    return hj.Reranker.from_pretrained(str(place / "ranker"))


def frame(columns, rows):
    return pandas.DataFrame(list(rows), columns=columns.split())


@pytest.fixture(scope="module")
def data(place):
    """(queries, qrels, documents)."""
    docs = hj.Documents.open(str(place / "docs.tsv"))
    return hj.read_queries(str(place / "queries.tsv")), hj.read_qrels(str(place / "qrels.txt")), dict(docs.texts())


def test_dicts_frames_and_paths_are_one(place, model, data):
    (queries, qrels, docs), bm25 = data, str(place / "bm25.trec")
    run, expected = hj.read_run(bm25), hj.rerank_run(model, bm25, place / "queries.tsv", place / "docs.tsv", k=5)
    assert hj.rerank_run(model, run, queries, docs, k=5) == expected
    assert all(list(scores.values()) == sorted(scores.values(), reverse=True) for scores in expected.values())
    ranked = [(q, d, s) for q, scores in run.items() for d, s in scores.items()]
    texts = frame("qid query", queries.items()), frame("docno text", docs.items())
    assert hj.rerank_run(model, frame("qid docno score", ranked), *texts, k=5) == expected
    judged = frame(
        "query_id doc_id relevance", [(q, d, level) for q, levels in qrels.items() for d, level in levels.items()]
    )
    table = hj.evaluate(qrels, {"BM25": run})
    assert table.mean == hj.evaluate(judged, {"BM25": frame("query_id doc_id score", ranked)}).mean
    assert table.mean == hj.evaluate(place / "qrels.txt", {"BM25": bm25}).mean
    assert table.to_frame().loc["BM25"].to_dict() == table.mean["BM25"]
    with pytest.raises(hj.InputError, match="needs one column docno or docid or doc_id; it has qid, query"):
        hj.rerank_run(model, texts[0], queries, docs)


def test_a_ranker_is_fitted_to_labels_in_memory(model, data, tmp_path, monkeypatch):
    fitted = model.fit(*data, str(tmp_path / "fitted"), steps=2, batch_pairs=8, row_length=24, window=16)
    assert (fitted.rerank("w1 w2", ["w1", "w3 w4"]) != model.rerank("w1 w2", ["w1", "w3 w4"])).all()

    # BM25 finds candidates inside a Japanese sentence only with the language given; queries may be held out to select on.
    docs = {"0": "画像を保存する方法です", "1": "画像を開く方法です", "2": "保存しない場合"}
    japanese = {"q": "保存"}, {"q": {"0": 1}}, docs
    with pytest.raises(hj.InputError, match="no candidates|no query"):
        model.fit(*japanese, "none", row_length=24)
    monkeypatch.setattr("harp_jax.training.train.train", lambda *_: sys.exit("it would train"))
    for given, changes in ((japanese, {"language": "ja"}), (data, {"select": "RR@10", "eval_every": 1})):
        with pytest.raises(SystemExit, match="it would train"):
            model.fit(*given, "none", row_length=24, **changes)


def test_wrong_arguments_are_input_errors(place, model):
    path, encoder = str(place / "ranker"), hj.Retriever.from_pretrained(place / "sentence-encoder")
    for call, wrong in (
        (model.predict, ([("a", None)], [(None, "b")], [(1, "b")], [("a", "b", "c")], "ab", ("a", "b"), ["ab"], None)),
        (lambda documents: model.rank("a", documents), ([None], [{"text": "x"}], "a", None)),
        (lambda windows: model.predict([("a", "b")], windows), (4,)),
        (hj.Windows, (2.5, "3", None)),
        (lambda length: hj.Reranker.from_pretrained(path, max_length=length), ("20", 20.5, 0)),
        (lambda tokens: hj.Retriever.from_pretrained(path, batch_tokens=tokens), (1000.5, -1)),
        (encoder.encode, (["a", None], {"d": "a"}, "a", None)),
        (lambda docs: encoder.search({"q": "a"}, docs), ("docs.tsv", {1: "a"}, {"d": None}, None)),
        (lambda k: encoder.search({"q": "a"}, {"d": "a"}, k), (1.5, 0)),
        *((opened, (None, "nowhere")) for opened in (hj.Reranker.from_pretrained, hj.Retriever.from_pretrained)),
        *((opened, (None, "nowhere")) for opened in (hj.CombinedSearch, lambda run: hj.export_model(run, "o"))),
    ):
        for each in wrong:
            with pytest.raises(hj.InputError):
                call(each)


def test_wrong_data_is_an_input_error():
    qrels, runs = "qid docno label", {"a": {"q": {"d": 1.0}}}
    for call, said in (
        (lambda: hj.evaluate({"q": {"d": 1}}, {"a": {"q": {"d": float("nan")}}}), "nan is not a finite number"),
        (lambda: hj.evaluate(frame(qrels, [("q", "d", 1.0), ("q", "d", 0)]), runs), "query 'q' lists 'd' twice"),
        (lambda: hj.evaluate(frame(qrels, [(math.nan, "d", 1)]), runs), "the id nan is neither text nor a whole number"),
        (lambda: hj.evaluate({"q": {3: 1}}, runs), "the id 3 is not a string"),
        (lambda: hj.evaluate({"q": {"d": 1.5}}, runs), "1.5 is not a whole number"),
        (lambda: hj.evaluate({"q": {"d": 0}}, runs), "none of the 1 judged queries has a relevant document"),
        (lambda: hj.load_config("tpu_v3", steps="many"), "tpu_v3: .*steps"),
    ):  # fmt: skip
        with pytest.raises(hj.InputError, match=said):
            call()


def test_texts_may_come_from_a_generator_and_half_a_surrogate_pair_is_replaced(place, model):
    assert hj.first_stage({"d": "a cat \ud800"}, {"q": "cat \udfff"}).keys() == {"q"}
    assert [*model.predict(iter([("w1 \ud800", "w2 \udfff")]))] == [*model.predict([("w1 \ufffd", "w2 \ufffd")])] != []
    encoder = hj.Retriever.from_pretrained(place / "sentence-encoder")
    assert encoder.encode(iter(["w1 \ud800"])).tolist() == encoder.encode(["w1 \ufffd"]).tolist() != []
