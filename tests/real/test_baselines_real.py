"""Pre-BERT rankers on real collections: one fold of KNRM, and LinkLearn from Wikipedia's links to Cranfield.

Training is far too short for meaningful figures; this only tests the pipeline on real text.
"""

import json
import os

import jax
import pytest

from harp_jax import config as configs
from harp_jax.base.files import lines
from harp_jax.baselines.linklearn.train import train as train_linklearn
from harp_jax.corpus.trec import in_folds, read_folds, read_qrels, read_queries, read_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.training.train import train
from tests.support.commands import command
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def is_above_chance(run, qrels) -> bool:
    """Whether the run's AP exceeds the mean over random orders of its candidates."""
    table = evaluate(qrels, {"run": run}, "AP", chance="run")
    print(table.mean)
    return table.mean["run"]["AP"] > table.mean["chance"]["AP"]


def cranfield() -> tuple[dict[str, str], str, str]:
    """(options of both rankers, judgments, source documents)."""
    shown = {
        "docs": shared("cranfield", "docs.tsv"),
        "queries": shared("cranfield", "queries.tsv"),
        "fields": "title,body",
    }
    return shown, shared("cranfield", "qrels.txt"), shared("cranfield", "source_documents.tsv")


def test_a_fold_of_knrm_on_cranfield(tmp_path):
    pytest.importorskip("gensim")
    shown, qrels, sources = cranfield()
    bm25, folds, vocabulary, output = (str(tmp_path / name) for name in ("bm25.trec", "folds", "words", "knrm.trec"))
    command("first-stage", **shown, model="bm25", exclude=sources, k=200, output=bm25)
    command("queries", "folds", queries=shown["queries"], output=folds)
    stems = {"stemmer": "english", "stopwords": "english", "dimension": 50, "epochs": 3, "output": vocabulary}
    command("words", "--vectors", docs=shown["docs"], fields="title,body", **stems)
    c = configs.neural_ir()
    c.docs, c.queries, c.qrels, c.candidates, c.folds = shown["docs"], shown["queries"], qrels, bm25, folds
    c.fields, c.train_folds = ("title", "body"), ("0", "1", "2", "3")
    c.tokenizer, c.vectors, c.row_length, c.epochs = vocabulary, f"{vocabulary}/vectors.txt", 150, 3.0
    c.model.train_vectors, c.learning_rate = False, 1e-2
    workdir = str(tmp_path / "knrm")
    train(c, workdir, devices=jax.devices()[:1])
    command("rerank", **shown, model=workdir, run=bm25, folds=folds, fold=4, output=output)
    held_out, run = in_folds(read_folds(folds), ["4"], folds), read_run(output)
    assert set(run) == set(held_out) and len(run) == 45
    judged = read_qrels(qrels)
    assert is_above_chance(run, {qid: judged[qid] for qid in run})


def linked_slice(directory: str, pages: int) -> tuple[str, str]:
    """JSONL of the first `pages` linked pages, and of the leads that they link to."""
    paths = os.path.join(directory, "pages.jsonl"), os.path.join(directory, "leads.jsonl")
    targets: set[str] = set()
    with open(paths[0], "w") as file:
        for number, line in lines(shared("wiki", "linked_pages.jsonl.xz")):
            if number > pages:
                break
            file.write(line + "\n")
            targets |= {link["target"] for link in json.loads(line)["links"]}
    with open(paths[1], "w") as file:
        for _, line in lines(shared("wiki", "collection.jsonl.xz")):
            if json.loads(line)["id"] in targets:
                file.write(line + "\n")
    return paths


def test_linklearn_of_wikipedia_ranks_cranfield(tmp_path):
    shown, qrels, sources = cranfield()
    c = configs.linklearn()
    c.docs, c.redirects = linked_slice(str(tmp_path), 500), (shared("wiki", "redirects.tsv"),)
    c.steps, c.eval_every = 100, 50
    done = train_linklearn(c, str(tmp_path / "linklearn"))
    print(done["held_out"])
    output = str(tmp_path / "linklearn.trec")
    command("linklearn-rank", **shown, model=tmp_path / "linklearn", exclude=sources, k=100, output=output)
    assert set(read_run(output)) == set(read_queries(shown["queries"]))
    assert is_above_chance(read_run(output), read_qrels(qrels))
