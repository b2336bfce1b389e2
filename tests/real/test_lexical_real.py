"""BM25 and query likelihood on real collections land where independent measurements have it."""

import pytest

from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Ranking, Run, read_qrels, read_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking import first_stage
from harp_jax.ranking.lexical import Collection
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def retrieve(docs: Documents, queries: dict[str, str], k: int, model: str = "bm25", **parameters: float) -> Run:
    collection = Collection(docs.texts())
    found = first_stage.retrieve(model, collection, [(parameters, queries)], k)
    return {qid: Ranking.of(docids, scores) for qid, docids, scores in found}


def without(run: Run, sources: dict[str, str]) -> Run:
    """The run with each query's source document taken out of its candidates."""
    kept: Run = {}
    for qid, ranking in run.items():
        pairs = [(d, s) for d, s in zip(ranking.docids, ranking.scores) if d != sources.get(qid)]
        kept[qid] = Ranking.of([docid for docid, _ in pairs], [score for _, score in pairs])
    return kept


def test_cranfield(tmp_path):
    """AP hangs on what is done with the document that each question came from (k1 1.2, b 0.75: .31, .36, .42).

    Taken out of the candidates it neither helps nor hurts; that is how figures on Cranfield are reported here.
    """
    docs = Documents.open(shared("cranfield", "docs.tsv"), ("title", "body"), str(tmp_path))
    assert len(docs) == 1400
    assert docs["D471"] == docs["D995"] == ""
    qrels, queries = read_qrels(shared("cranfield", "qrels.txt")), read_queries(shared("cranfield", "queries.tsv"))
    assert sum(level > 0 for judged in qrels.values() for level in judged.values()) == 1612
    with open(shared("cranfield", "source_documents.tsv")) as file:
        sources = dict(line.split() for line in file)
    run = retrieve(docs, queries, 1000, k1=1.2, b=0.75)
    table = evaluate(qrels, {"not relevant": run, "taken out": without(run, sources)}, "AP nDCG@10 R@100")
    assert not any(table.missing.values()) and not any(table.unknown.values())
    relevant = {qid: {**judged, sources[qid]: 4} for qid, judged in qrels.items()}
    counted = evaluate(relevant, {"relevant": run}, "AP").mean["relevant"]["AP"]
    print(table.mean, counted)
    assert 0.34 < table.mean["taken out"]["AP"] < 0.38
    assert 0.40 < table.mean["taken out"]["nDCG@10"] < 0.44
    assert 0.71 < table.mean["taken out"]["R@100"] < 0.76
    assert table.mean["not relevant"]["AP"] < table.mean["taken out"]["AP"] < counted < 0.45


def test_cranfield_query_likelihood(tmp_path):
    """Short abstracts want little smoothing: μ = 250; the source document taken out of the candidates."""
    docs = Documents.open(shared("cranfield", "docs.tsv"), ("title", "body"), str(tmp_path))
    qrels, queries = read_qrels(shared("cranfield", "qrels.txt")), read_queries(shared("cranfield", "queries.tsv"))
    excluded = first_stage.excluded_of(shared("cranfield", "source_documents.tsv"))
    collection = Collection(docs.texts())
    found = first_stage.retrieve("ql", collection, [({"mu": 250.0}, queries)], 1000, excluded)
    run = {qid: Ranking.of(docids, scores) for qid, docids, scores in found}
    table = evaluate(qrels, {"ql": run}, "AP nDCG@10 R@100")
    print(table.mean)
    assert 0.30 < table.mean["ql"]["AP"] < 0.38
    assert 0.36 < table.mean["ql"]["nDCG@10"] < 0.44


def test_wikipassageqa(tmp_path):
    """Title and body, k1 0.9, b 0.4, English stemmer, all folds; body alone gives RR@10 .219, R@100 .686."""
    docs = Documents.open(shared("wiki", "collection.jsonl.xz"), cache_dir=str(tmp_path))
    assert len(docs) == 169_758
    qrels, queries = (
        read_qrels(shared("wiki", "wikipassageqa.qrels")),
        read_queries(shared("wiki", "wikipassageqa.queries.tsv")),
    )
    assert len(queries) == len(qrels) == 2561
    assert all(docid in docs for judged in qrels.values() for docid in judged)
    table = evaluate(qrels, {"bm25": retrieve(docs, queries, 100, k1=0.9, b=0.4)}, "RR@10 nDCG@10 R@100")
    assert table.mean["bm25"] == pytest.approx({"RR@10": 0.230, "nDCG@10": 0.273, "R@100": 0.694}, abs=6e-4)
