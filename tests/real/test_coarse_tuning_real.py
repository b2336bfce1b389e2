"""The six systems of coarse-tuning end to end: Wikipedia's anchors as clicks, WikiPassageQA as the collection.

One trial of one epoch, so the figures mean nothing. Tests that the plan's commands read each other's outputs and respect folds,
and that the table compares all six systems.
"""

import json
import os
from pathlib import Path

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


def write_encoder(folder: Path) -> None:
    config = BertShape(vocab_size=30522, layers=1, hidden=64, heads=2, intermediate=128, max_positions=256)
    params = jax.device_get(init_params(config, jax.random.key(0)))
    params["mlm"]["bias"] = np.full_like(params["mlm"]["bias"], 0.01)  # counts as trained; zeros would be a fresh head
    save_hf(str(folder), config, params, load_tokenizer(shared("vocab", "bert-base-uncased-vocab.txt")), "")


def write_data(folder: Path) -> None:
    """Writes orcas.tsv (anchors as queries), msmarco-docs.tsv, and dl/ with documents, queries, qrels and two folds."""
    qrels = read_qrels(shared("wiki", "wikipassageqa.qrels"))
    queries = dict(list(read_queries(shared("wiki", "wikipassageqa.queries.tsv")).items())[:QUERIES])
    wanted, clicks, docs, marco = {docid for qid in queries for docid in qrels[qid]}, [], [], []
    for number, line in lines(shared("wiki", "linked_pages.jsonl.xz")):
        if number > PAGES:
            break
        page = json.loads(line)
        for place, link in enumerate(page["links"]):
            query, target = " ".join(page["text"][link["start"] : link["end"]].split()), link["target"]
            clicks.append(f"{number}x{place}\t{query}\t{target}\thttps://example.org{target}\n")
            wanted.add(target)
    for _, line in lines(shared("wiki", "collection.jsonl.xz")):
        record = json.loads(line)
        if record["id"] in wanted:
            docs.append(line + "\n")
            marco.append("\t".join((record["id"], "", record["title"], " ".join(record["text"].split()))) + "\n")
    (folder / "dl").mkdir()
    for name, rows in {
        "orcas.tsv": clicks,
        "msmarco-docs.tsv": marco,
        "dl/docs.jsonl": docs,
        "dl/queries.tsv": [f"{qid}\t{text}\n" for qid, text in queries.items()],
        "dl/qrels.txt": [f"{qid} 0 {docid} {level}\n" for qid in queries for docid, level in qrels[qid].items()],
        "dl/folds.tsv": [f"{qid}\t{number % 2}\n" for number, qid in enumerate(queries)],
    }.items():
        (folder / name).write_text("".join(rows))


def test_six_systems_on_wikipedia(tmp_path, monkeypatch):
    write_encoder(tmp_path / "bert-tiny")
    write_data(tmp_path)
    os.symlink(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    steps = resolve(load_plan("coarse_tuning").commands(["collection=dl", "trials=1", "epochs=1.0"]), "out")
    execute(steps, "out")
    rows = [line.split("\t") for line in Path(steps[-1].place).read_text().splitlines()[1:]]
    assert {system for system, *_ in rows} == SYSTEMS
    assert {measure for _, measure, *_ in rows} == {"RR", "nDCG@5", "nDCG@15", "nDCG@30", "AP"}
    assert len(rows) == len(SYSTEMS) * 5 * QUERIES
    coarse = next(step.place for step in steps if step.command.name == "coarse")
    last = json.loads((Path(coarse) / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["mlm_loss"] < 10.4  # uniform guesses among 30,522 words: ln 30522 = 10.33
