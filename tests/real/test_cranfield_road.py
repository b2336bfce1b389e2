"""Cranfield from documents to a table: tuned BM25 and query likelihood, five folds of fine-tuning, fusion, and a comparison.

A BERT-tiny from random weights learns nothing from 180 queries; the test shows that every step works, and prints the figures.
"""

import json

import pytest

from harp_jax.corpus.trec import read_qrels, read_queries, read_run
from harp_jax.evaluation.evaluate import evaluate
from tests.support.commands import command
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def test_five_folds(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    docs, queries = shared("cranfield", "docs.tsv"), shared("cranfield", "queries.tsv")
    qrels, sources = shared("cranfield", "qrels.txt"), shared("cranfield", "source_documents.tsv")
    folds = str(tmp_path / "folds.tsv")
    with open(folds, "w") as file:
        file.writelines(f"{qid}\t{i % 5}\n" for i, qid in enumerate(read_queries(queries)))
    common = [f"--docs={docs}", f"--queries={queries}", "--fields=title,body", f"--exclude={sources}"]
    tuning = [*common, f"--qrels={qrels}", f"--folds={folds}", "--measure=AP", "--k=1000"]
    runs = {}
    for model in ("bm25", "ql"):
        tuned, runs[model] = str(tmp_path / f"{model}.json"), str(tmp_path / f"{model}.trec")
        command("tune-first-stage", f"--model={model}", *tuning, f"--output={tuned}")
        command(
            "first-stage",
            f"--model={model}",
            *common,
            "--k=100",
            f"--folds={folds}",
            f"--parameters={tuned}",
            f"--output={runs[model]}",
        )
        assert set(json.load(open(tuned))["folds"]) == set("01234")
    out = tmp_path / "cv"
    options = {
        "docs": docs, "queries": queries, "qrels": qrels, "candidates": f"BM25={runs['bm25']}", "folds": folds,
        "transformers": "none", "lexical": "", "neural_rankers": "", "finetune": "configs/finetune_bert_tiny.py",
        "tokenizer": shared("vocab", "bert-base-uncased-vocab.txt"),
        "settings": "steps=30,init_head=fresh,rank_loss=lce", "rerank": "max_length=256,k=50",
        "measures": "AP nDCG@10 RR@10 Judged@10",
    }  # fmt: skip
    command("plan", "tables", f"--output={out}", *(f"--set={name}={value}" for name, value in options.items()))
    (joined,) = out.glob("joined_bm25_none_s0-*.trec")
    runs["fine_tuned"], runs["fused"] = str(joined), str(tmp_path / "fused.trec")
    command(
        "fuse", "--method=weights", runs["bm25"], runs["fine_tuned"], f"--qrels={qrels}", f"--folds={folds}", "--measure=AP",
        f"--output={runs['fused']}",
    )  # fmt: skip
    judged, found = read_qrels(qrels), {name: read_run(path) for name, path in runs.items()}
    table = evaluate(judged, found, "AP nDCG@10 R@100 Judged@10", "bm25")
    print(table)
    assert not any(table.missing.values()) and not any(table.unknown.values())
    assert 0.30 < table.mean["bm25"]["AP"] < 0.37 and 0.28 < table.mean["ql"]["AP"] < 0.37
    assert table.mean["fused"]["AP"] > table.mean["bm25"]["AP"] - 0.01
    for qid, ranking in found["fine_tuned"].items():
        assert set(ranking.docids) == set(found["bm25"][qid].ranked()[:50])
