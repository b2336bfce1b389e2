"""ONNX and OpenVINO score as JAX does, with MiniLM; tests/model and tests/ranking compare the scores of random models."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.export import truncated
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.onnx_openvino import FILES, model_files, write_onnx, write_openvino
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.model.cross_encoder import init_params
from harp_jax.ranking.runtimes import onnx_runtime, openvino_runtime
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import NO_MARKS, load_tokenizer
from tests.support.commands import python
from tests.support.shared_data import minilm, shared

# Root mean square error of the scores over their standard deviation. In int8, since a fresh head spreads the scores little: 0.14
# (ONNX, which quantises inputs at run time), 0.09 (OpenVINO, calibrated on 64 pairs; on 11 of them 0.15 to 0.32, by machine).
DRIFT, DRIFT_OF_INT8 = 1e-4, 0.25


@pytest.mark.real
@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_drift_of_scores_is_bounded(tmp_path, name):
    """MiniLM with a fresh head: 8 questions with the same 16 documents."""
    pytest.importorskip({"onnx": "onnxruntime", "openvino": "nncf"}[name])
    directory, questions = minilm(), read_queries(shared("wiki", "wikipassageqa.queries.tsv"))
    docs = Documents.open(shared("wiki", "collection.jsonl.xz"), ("title", "body"))
    qrels = read_qrels(shared("wiki", "wikipassageqa.qrels"))
    asked, pool = (list(qrels)[:: len(qrels) // count][:count] for count in (8, 16))
    texts = [(questions[qid], docs[next(iter(qrels[other]))]) for qid in asked for other in pool]
    config, params = load_hf(directory)
    params = {**jax.device_get(init_params(config, jax.random.key(0))), **params}
    tokenizer = replace(load_tokenizer(directory), max_length=256)
    pairs = truncated(texts, tokenizer, NO_MARKS)
    expected = CrossEncoderScorer(config, params, tokenizer).score(pairs)
    if name == "onnx":
        write_onnx(str(tmp_path), config, params, int8=True)
    else:
        write_openvino(str(tmp_path), config, params, tokenizer, pairs[::2])
    sizes = []
    for int8 in (False, True):
        path = str(tmp_path / FILES[name, int8])
        runtime = onnx_runtime(path) if name == "onnx" else openvino_runtime(path, "float32")
        found = CrossEncoderScorer(config, params, tokenizer, runtime=runtime).score(pairs)
        assert np.sqrt(np.mean((found - expected) ** 2)) / expected.std() <= (DRIFT_OF_INT8 if int8 else DRIFT)
        sizes.append(sum((tmp_path / file).stat().st_size for file in model_files(name, int8)))
    assert sizes[1] < 0.7 * sizes[0]  # most weights are 8-bit


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
