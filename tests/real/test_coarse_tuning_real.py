"""The six systems of coarse-tuning end to end on an invented collection: clicks on half of the documents for each query.

One trial of one epoch, so the figures mean nothing. Tests that the steps read each other's outputs and respect folds,
and that the table compares all six systems, with a row for each setting of the grids.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from harp_jax.base import steps
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.experiments.coarse_tuning import coarse_tuning
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import Tokenizer
from tests.support import ROOT
from tests.support.ranking_collection import write_collection
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import random_params

pytestmark = pytest.mark.real

SYSTEMS = {"BM25", "pretrained", "fine_tuned", "cont_pre_fine", "chance"}
SYSTEMS |= {f"{row}{share}" for row in ("coarse_tuned", "coarse_fine") for share in ("_s0.5", "_s1")}


def test_six_systems(tmp_path, monkeypatch):
    (folder := tmp_path / "dl").mkdir()
    write_collection(folder)
    shutil.copy(folder / "docs.tsv", tmp_path / "msmarco-docs.tsv")
    texts = [line.split("\t\t\t") for line in (folder / "docs.tsv").read_text().splitlines()]
    (folder / "docs.jsonl").write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in texts))
    (folder / "folds.tsv").write_text("".join(f"q{i}\t{i % 2}\n" for i in range(40)))
    queries = (folder / "queries.tsv").read_text().splitlines()
    clicks = [f"{query}\td{(i + j) % 40}\thttp://x\n" for i, query in enumerate(queries) for j in range(20)]
    (tmp_path / "orcas.tsv").write_text("".join(clicks))
    marked = Tokenizer.of_words((*tokenizer().tokens, "[unused0]", "[unused1]"))
    shape = BertShape(marked.size, layers=1, hidden=32, heads=2, intermediate=64, max_positions=256)
    save_hf(str(tmp_path / "bert-tiny"), shape, random_params(shape), marked, "")
    os.symlink(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "in_process", lambda function, log: function)
    one = {"trials": 1, "continual_epochs": 1.0, "fine_epochs": (1.0,), "coarse_epochs": (1.0,)}
    coarse_tuning("out", collection="dl", samples=(0.5, 1.0), **one)
    rows = [line.split("\t") for line in Path("out/table.tsv").read_text().splitlines()[1:]]
    assert {system for system, *_ in rows} == SYSTEMS
    assert {measure for _, measure, *_ in rows} == {"RR", "nDCG@5", "nDCG@15", "nDCG@30", "AP"}
    assert len(rows) == len(SYSTEMS) * 5 * 40
