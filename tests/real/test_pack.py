"""What `harp pack` writes ranks as well in real engines: Lucene, with the queries of OpenSearch and Elasticsearch, and LanceDB.

Cranfield's abstracts with vectors of MiniLM; titles stand for anchor texts. Lucene is that of pyserini: pip install --no-deps
pyserini==0.22.1, and Java 17 with its compiler. docs/site.md has the figures of two manuals.
"""

import glob
import json
import runpy
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harp_jax.base.randomness import hash64
from harp_jax.corpus.trec import Ranking, read_qrels, read_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.fuse import ANCHORS, BM25, VECTORS
from harp_jax.ranking.vectors import add_texts
from harp_jax.site.pack import pack
from harp_jax.site.pages import PARAMETERS
from harp_jax.site.search import CombinedSearch, Settings, documents
from tests.support import ROOT
from tests.support.shared_data import minilm, shared

pytestmark = pytest.mark.real
QUERIES, DOCUMENTS = 75, 600
WEIGHTS = {ANCHORS: 1.0, VECTORS: 2.0}


@pytest.fixture(scope="module")
def judged():
    """The judgments of some queries, levels below 0 as 0."""
    qrels = read_qrels(shared("cranfield", "qrels.txt"))
    return {qid: {docid: max(level, 0) for docid, level in qrels[qid].items()} for qid in list(qrels)[:QUERIES]}


@pytest.fixture(scope="module")
def site(judged, tmp_path_factory):
    """A folder as `harp site` makes it: the documents that are relevant to some queries, and others."""
    folder = tmp_path_factory.mktemp("real") / "site"
    (folder / "pages").mkdir(parents=True)
    rows = [line.rstrip("\n").split("\t") for line in open(shared("cranfield", "docs.tsv"), encoding="utf-8")]
    wanted = {docid for levels in judged.values() for docid, level in levels.items() if level > 0}
    rows = sorted((row for row in rows if row[3].strip()), key=lambda row: row[0] not in wanted)
    with open(folder / "pages" / "docs.jsonl", "w") as docs, open(folder / "pages" / "anchors.tsv", "w") as anchors:
        for docid, _, title, body in rows[:DOCUMENTS]:
            docs.write(json.dumps({"id": docid, "title": title, "text": body}) + "\n")
            if title.strip() and (links := hash64(docid) % 4):  # a quarter has no links
                anchors.write(f"{docid}\t{' '.join(title.split())}\t{links}\n")
    shutil.copytree(minilm(), folder / "encoder")
    Settings(parameters=PARAMETERS, weights=WEIGHTS, encoder="encoder").save(str(folder))
    add_texts(documents(str(folder)), str(folder / "encoder"), 1, str(folder / "vectors"))
    return folder


@pytest.fixture(scope="module")
def asked(site, judged):
    """(queries, their vectors, judgments, our rankings with scores of each part)."""
    queries = read_queries(shared("cranfield", "queries.tsv"))
    combined = CombinedSearch(str(site), [BM25, *WEIGHTS])
    encoder = combined.vectors.encoder
    encoded = {qid: encoder.as_query(encoder.encode_queries([queries[qid]])[0]) for qid in judged}
    vectors = {qid: encoder.vectors([tokens])[0].tolist() for qid, tokens in encoded.items()}
    return queries, vectors, judged, {qid: combined.scores(queries[qid]) for qid in judged}


def mean(qrels, rankings) -> float:
    run = {qid: Ranking.of([*one], one.values()) for qid, one in zip(rankings, map(dict, rankings.values()))}
    return evaluate(qrels, {"": run}, "RR@10").mean[""]["RR@10"]


def ours(parts, values=None) -> list[tuple[str, float]]:
    """The ranking by the values of one part, or by the weighted sum."""
    values = parts.total(WEIGHTS) if values is None else values
    return sorted(zip(parts.docids, values.tolist()), key=lambda row: -row[1])


def overlap(first, second) -> float:
    """The mean share of the ten best that two rankings of each query have in common."""
    both = [{d for d, _ in first[qid][:10]} & {d for d, _ in second[qid][:10]} for qid in first]
    return float(np.mean([len(common) / 10 for common in both]))


def written_search(folder: Path) -> SimpleNamespace:
    """The functions of search.py."""
    return SimpleNamespace(**runpy.run_path(str(folder / "search.py")))


@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_lucene(site, asked, tmp_path, engine):
    jars = glob.glob(f"{sysconfig.get_path('purelib')}/pyserini/resources/jars/*.jar")
    if not jars or not shutil.which("javac"):
        pytest.skip("Lucene absent: pip install --no-deps pyserini==0.22.1, and a JDK 17")
    queries, vectors, qrels, scores = asked
    pack(str(site), engine, str(tmp_path / "out"))
    search = written_search(tmp_path / "out")
    lines = [json.dumps({"qid": qid, "QUERY": queries[qid], "VECTOR": vectors[qid]}) + "\n" for qid in qrels]
    (tmp_path / "asked").write_text("".join(lines))
    java = ["java", "-Xmx1g", "-cp", jars[0], ROOT / "tests" / "support" / "LuceneSearch.java"]
    paths = (tmp_path / name for name in ("out", "asked", "answers"))
    subprocess.run([*java, *paths, str(search.plan()["depth"])], check=True)
    answers = {row["qid"]: row for row in map(json.loads, (tmp_path / "answers").open())}
    for part, least in ((BM25, 0.9), (ANCHORS, 0.9), (VECTORS, 0.98)):
        alone = {qid: ours(scores[qid], scores[qid].parts[part]) for qid in qrels}
        assert overlap(alone, {qid: [*answers[qid]["hits"][part].items()] for qid in qrels}) > least, part
    rows = [json.loads(line) for path in (tmp_path / "out").glob("documents-*") for line in path.open()]
    documents = {action["index"]["_id"]: row for action, row in zip(rows[::2], rows[1::2])}
    passages = {docid: [passage["vector"] for passage in row["passages"]] for docid, row in documents.items()}
    added = {}
    for qid, row in answers.items():
        near = {d: search.nearest(vectors[qid], passages[d]) for hits in row["hits"].values() for d in hits}
        added[qid] = search.add_up(row["words"] | {VECTORS: near}, search.plan()["weights"])
    expected = {qid: ours(scores[qid]) for qid in qrels}
    assert overlap(expected, added) > 0.95
    assert mean(qrels, added) == pytest.approx(mean(qrels, expected), abs=0.02)


def test_lancedb(site, asked, tmp_path):
    pytest.importorskip("lancedb")
    queries, vectors, qrels, scores = asked
    pack(str(site), "lancedb", str(tmp_path / "out"))
    search = written_search(tmp_path / "out")
    added = {qid: search.search_table(queries[qid], vectors[qid]) for qid in qrels}
    expected = {qid: ours(scores[qid]) for qid in qrels}
    assert overlap(expected, added) > 0.99
    assert mean(qrels, added) == pytest.approx(mean(qrels, expected), abs=0.005)
    # sentence-transformers embeds the query as we do.
    qid = next(iter(qrels))
    np.testing.assert_allclose(search.embed(queries[qid]), vectors[qid], atol=1e-4)
