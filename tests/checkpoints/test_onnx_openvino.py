"""ONNX and OpenVINO rank as JAX does, with MiniLM; tests/model and tests/ranking compare the scores of random models."""

import os
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.export import truncated
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.onnx_openvino import FILES, write_onnx, write_openvino
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.model.cross_encoder import init_params
from harp_jax.ranking.runtimes import RuntimeScorer, onnx_runtime, openvino_runtime
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import NO_MARKS, load_tokenizer
from tests.support.commands import python
from tests.support.shared_data import minilm, shared

# Root mean square error of the scores over their standard deviation. In int8, since a fresh head spreads the scores little: 0.14,
# with a change of nDCG@10 of 0.004 (ONNX, which quantises inputs at run time), 0.09 (OpenVINO, calibrated on 64 pairs; on 11 of
# them 0.15 to 0.32, by machine).
DRIFT, DRIFT_OF_INT8 = 1e-4, 0.25


@pytest.fixture(scope="module")
def model():
    """MiniLM with a fresh head, its scores of 8 questions with the same 16 documents, and the best quarter as relevant."""
    directory, questions = minilm(), read_queries(shared("wiki", "wikipassageqa.queries.tsv"))
    docs = Documents.open(shared("wiki", "collection.jsonl.xz"), ("title", "body"))
    qrels = read_qrels(shared("wiki", "wikipassageqa.qrels"))
    asked, pool = (list(qrels)[:: len(qrels) // count][:count] for count in (8, 16))
    texts = [(questions[qid], docs[next(iter(qrels[other]))]) for qid in asked for other in pool]
    config, params = load_hf(directory)
    params = {**jax.device_get(init_params(config, jax.random.key(0))), **params}
    tokenizer = replace(load_tokenizer(directory), max_length=256)
    pairs = truncated(texts, tokenizer, NO_MARKS)
    scores = CrossEncoderScorer(config, params, tokenizer).score(pairs)
    rows = scores.reshape(8, -1)
    relevant = rows >= np.sort(rows)[:, -4, None]
    return SimpleNamespace(
        config=config, params=params, tokenizer=tokenizer, pairs=pairs, scores=scores, relevant=relevant
    )


def weights(path: str) -> int:
    if path.endswith(".xml"):
        return os.path.getsize(path.replace(".xml", ".bin"))
    import onnx

    return sum(tensor.ByteSize() for tensor in onnx.load(path).graph.initializer)


def ndcg(scores: np.ndarray, relevant: np.ndarray) -> float:
    run, qrels = (
        {f"q{i}": {f"d{j}": kind(x) for j, x in enumerate(row)} for i, row in enumerate(table)}
        for kind, table in ((float, scores.reshape(relevant.shape)), (int, relevant))
    )
    return evaluate(qrels, {"run": run}, ["nDCG@10"]).mean["run"]["nDCG@10"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_drift_of_scores_and_of_ndcg_is_bounded(model, tmp_path, name):
    pytest.importorskip({"onnx": "onnxruntime", "openvino": "nncf"}[name])
    if name == "onnx":
        write_onnx(str(tmp_path), model.config, model.params, int8=True)
    else:
        write_openvino(str(tmp_path), model.config, model.params, model.tokenizer, model.pairs[::2])
    for int8 in (False, True):
        path = str(tmp_path / FILES[name, int8])
        runtime = onnx_runtime(path) if name == "onnx" else openvino_runtime(path, "float32")
        found = RuntimeScorer(runtime, model.config, model.tokenizer).score(model.pairs)
        assert found.shape == model.scores.shape and np.isfinite(found).all()
        drift = np.sqrt(np.mean((found - model.scores) ** 2)) / model.scores.std()
        change = abs(ndcg(found, model.relevant) - ndcg(model.scores, model.relevant))
        print(f"{name} {'int8' if int8 else 'float32'}: drift {drift:.2g}, nDCG@10 changed by {change:.4f}")
        assert drift <= (DRIFT_OF_INT8 if int8 else DRIFT) and change <= 0.05 * int8
    # Most weights are 8-bit.
    whole, small = (weights(str(tmp_path / FILES[name, int8])) for int8 in (False, True))
    assert small < 0.7 * whole


CONVERTED = """
import sys, warnings
import jax
jax.numpy.zeros(1)
warnings.filterwarnings("error", "os.fork")
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer
from harp_jax.checkpoints.onnx_openvino import write_openvino
write_openvino(sys.argv[1], CONFIG, random_params(CONFIG), small_tokenizer(), [((2, 3), (4, 5, 6))] * 3)
assert not [name for name in sys.modules if name.startswith("openvino_telemetry")]
"""


@pytest.mark.real
def test_conversions_report_nothing_to_anybody(tmp_path):
    """OpenVINO's packages would fork a process that sends usage data; JAX warns of the fork."""
    pytest.importorskip("openvino"), pytest.importorskip("nncf")
    assert "os.fork" not in python("-c", CONVERTED, tmp_path).stderr
