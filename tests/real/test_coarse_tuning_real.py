"""The six systems of coarse-tuning end to end: Wikipedia's anchors as clicks, WikiPassageQA as the collection.

One trial of one epoch, so the figures mean nothing. Tests that the plan's commands read each other's outputs and respect folds,
and that the table compares all six systems.
"""

import json
import os

import jax
import numpy as np
import pytest

from harp_jax.base.files import lines
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.experiments.execution import execute
from harp_jax.experiments.plan import load_plan, resolve
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import ROOT
from tests.support.shared_data import shared

pytestmark = pytest.mark.real

PAGES, QUERIES = 20, 16
SYSTEMS = {"BM25", "pretrained", "coarse_tuned", "fine_tuned", "cont_pre_fine", "coarse_fine", "chance"}


def clicks_of_pages(path: str) -> set[str]:
    """Writes ORCAS's four columns with anchors as queries; returns the clicked documents."""
    clicked: set[str] = set()
    with open(path, "w") as file:
        for number, line in lines(shared("wiki", "linked_pages.jsonl.xz")):
            if number > PAGES:
                return clicked
            page = json.loads(line)
            for place, link in enumerate(page["links"]):
                query = " ".join(page["text"][link["start"] : link["end"]].split())
                file.write(f"{number}x{place}\t{query}\t{link['target']}\thttps://example.org{link['target']}\n")
                clicked.add(link["target"])
    return clicked


def write_data(folder: str) -> None:
    """Writes bert-tiny, orcas.tsv, msmarco-docs.tsv, and dl/ with documents, queries, qrels and two folds."""
    config = BertShape(vocab_size=30522, layers=1, hidden=64, heads=2, intermediate=128, max_positions=256)
    tokenizer = load_tokenizer(shared("vocab", "bert-base-uncased-vocab.txt"))
    params = jax.device_get(init_params(config, jax.random.key(0)))
    params["mlm"]["bias"] = np.full_like(params["mlm"]["bias"], 0.01)  # counts as trained; zeros would be a fresh head
    save_hf(os.path.join(folder, "bert-tiny"), config, params, tokenizer, "")
    qrels = read_qrels(shared("wiki", "wikipassageqa.qrels"))
    queries = dict(list(read_queries(shared("wiki", "wikipassageqa.queries.tsv")).items())[:QUERIES])
    wanted = clicks_of_pages(os.path.join(folder, "orcas.tsv")) | {d for q in queries for d in qrels[q]}
    os.makedirs(os.path.join(folder, "dl"))
    place = {name: os.path.join(folder, "dl", name) for name in ("docs.jsonl", "queries.tsv", "qrels.txt", "folds.tsv")}
    with open(place["docs.jsonl"], "w") as docs, open(os.path.join(folder, "msmarco-docs.tsv"), "w") as marco:
        for _, line in lines(shared("wiki", "collection.jsonl.xz")):
            record = json.loads(line)
            if record["id"] in wanted:
                docs.write(line + "\n")
                marco.write("\t".join((record["id"], "", record["title"], " ".join(record["text"].split()))) + "\n")
    for name, text in (
        ("queries.tsv", "".join(f"{qid}\t{text}\n" for qid, text in queries.items())),
        ("qrels.txt", "".join(f"{q} 0 {d} {level}\n" for q in queries for d, level in qrels[q].items())),
        ("folds.tsv", "".join(f"{qid}\t{number % 2}\n" for number, qid in enumerate(queries))),
    ):
        with open(place[name], "w") as file:
            file.write(text)


def test_six_systems_on_wikipedia(tmp_path, monkeypatch, capfd):
    shared("wiki", "collection.jsonl.xz")
    write_data(str(tmp_path))
    os.symlink(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    steps = resolve(load_plan("coarse_tuning").commands(["collection=dl", "trials=1", "epochs=1.0"]), "out")
    execute(steps, "out")
    with open(steps[-1].place) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    found = {(row[0], row[1]) for row in rows[1:]}
    assert {system for system, _ in found} == SYSTEMS
    assert {measure for _, measure in found} == {"RR", "nDCG@5", "nDCG@15", "nDCG@30", "AP"}
    assert len(rows) - 1 == len(SYSTEMS) * 5 * QUERIES
    with open(os.path.join(next(s.place for s in steps if s.command.name == "coarse"), "metrics.jsonl")) as file:
        last = json.loads(file.readlines()[-1])
    assert last["mlm_loss"] < 10.4  # uniform guesses among 30,522 words: ln 30522 = 10.33
