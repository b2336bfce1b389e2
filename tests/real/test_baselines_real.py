"""The rankers of before BERT on real collections: one fold of KNRM, and LinkLearn from Wikipedia's links to Cranfield.

Both are trained far too briefly for their figures to mean anything; what is shown is that the road holds on real text.
"""

import json
import os

import jax
import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.base.files import lines
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn.train import train as train_linklearn
from harp_jax.corpus.trec import Qrels, Ranking, Run, in_folds, read_folds, read_qrels, read_queries, read_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.training.train import train
from tests.support.commands import command
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def shuffled(run: Run, number: int) -> Run:
    """The same candidates in a random order."""
    rng = generator("shuffled", number)
    return {
        qid: Ranking.of(ranking.docids, rng.permutation(len(ranking.docids)).astype(float))
        for qid, ranking in run.items()
    }


def average_precision(qrels: Qrels, run: Run) -> tuple[float, float]:
    """(AP of the run, mean AP of five random orders of its candidates)."""
    table = evaluate(qrels, {"run": run} | {f"random{i}": shuffled(run, i) for i in range(5)}, "AP")
    values = {name: measures["AP"] for name, measures in table.mean.items()}
    print(values)
    return values.pop("run"), float(np.mean(list(values.values())))


def test_a_fold_of_knrm_on_cranfield(tmp_path):
    pytest.importorskip("gensim")
    docs, queries = shared("cranfield", "docs.tsv"), shared("cranfield", "queries.tsv")
    qrels, sources = shared("cranfield", "qrels.txt"), shared("cranfield", "source_documents.tsv")
    bm25, folds, output = (str(tmp_path / name) for name in ("bm25.trec", "folds.tsv", "knrm.trec"))
    common = [f"--docs={docs}", f"--queries={queries}", "--fields=title,body"]
    command("first-stage", "--model=bm25", *common, f"--exclude={sources}", "--k=200", f"--output={bm25}")
    command("queries", "folds", f"--queries={queries}", f"--output={folds}")
    vocabulary = str(tmp_path / "words")
    stems = [f"--docs={docs}", "--fields=title,body"]
    stems += ["--stemmer=english", "--stopwords=english", "--vectors", "--dimension=50", "--epochs=3"]
    command("words", *stems, f"--output={vocabulary}")
    c = configs.neural_ir()
    c.docs, c.queries, c.qrels, c.candidates, c.folds = docs, queries, qrels, bm25, folds
    c.fields, c.train_folds = ("title", "body"), ("0", "1", "2", "3")
    c.tokenizer, c.vectors, c.row_length, c.epochs = vocabulary, f"{vocabulary}/vectors.txt", 150, 3.0
    c.model.train_vectors, c.learning_rate = False, 1e-2
    workdir = str(tmp_path / "knrm")
    train(c, workdir, devices=jax.devices()[:1])
    fold = ["--folds=" + folds, "--fold=4"]
    command("rerank", f"--model={workdir}", *common, f"--run={bm25}", *fold, f"--output={output}")
    held_out, run = in_folds(read_folds(folds), ["4"], folds), read_run(output)
    assert set(run) == set(held_out) and len(run) == 45
    judged = read_qrels(qrels)
    found, random = average_precision({qid: judged[qid] for qid in run}, run)
    assert found > random


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
    docs, queries = shared("cranfield", "docs.tsv"), shared("cranfield", "queries.tsv")
    qrels, sources = shared("cranfield", "qrels.txt"), shared("cranfield", "source_documents.tsv")
    c = configs.linklearn()
    c.docs, c.redirects = linked_slice(str(tmp_path), 500), (shared("wiki", "redirects.tsv"),)
    c.steps, c.eval_every = 100, 50
    done = train_linklearn(c, str(tmp_path / "linklearn"))
    print(done["held_out"])
    output = str(tmp_path / "linklearn.trec")
    common = [f"--docs={docs}", f"--queries={queries}", "--fields=title,body", f"--exclude={sources}", "--k=100"]
    command("linklearn-rank", f"--model={tmp_path / 'linklearn'}", *common, f"--output={output}")
    run = read_run(output)
    assert set(run) == set(read_queries(queries))
    found, random = average_precision(read_qrels(qrels), run)
    assert found > random
