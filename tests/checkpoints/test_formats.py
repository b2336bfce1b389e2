"""ONNX and OpenVINO: the ranker in either scores and ranks as it does here. Skipped where the packages are not installed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import check_formats, truncated
from harp_jax.checkpoints.formats import FILES, feed, write_onnx, write_openvino
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.input.packing import pair_rows
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import NO_MARKS
from tests.support import ROOT
from tests.support.sessions import session
from tests.support.tiny_bert import CONFIG, WORDS, random_params, small_tokenizer

RANKER = ("encoder", "pooler", "score")
# Root mean square of the scores' errors by their standard deviation. OpenVINO's int8 depends on the activations it was calibrated
# on: those of this random model say nothing (.2 to .55, by machine). tests/real/test_formats_real.py bounds both on real weights.
DRIFT = {("onnx", False): 1e-4, ("openvino", False): 1e-4, ("onnx", True): 0.3}
NDCG_DRIFT = {("onnx", False): 0.0, ("openvino", False): 0.0, ("onnx", True): 0.05}


@pytest.fixture(scope="module")
def ranker():
    """(parameters, 20 queries with 12 documents each as ids, their scores here [pairs])."""
    params = {name: tree for name, tree in random_params(CONFIG).items() if name in RANKER}
    words = [word for word in WORDS.split() if word.isalpha()]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(2, 30))) for _ in range(12)]
    queries = [" ".join(rng.choice(words, 3)) for _ in range(20)]
    pairs = truncated([(q, d) for q in queries for d in texts], small_tokenizer(), NO_MARKS)
    scorer = CrossEncoderScorer(CONFIG, params, small_tokenizer())
    return params, pairs, scorer.score(pairs)


def weights(path: str) -> int:
    """Bytes of the weights of a model file."""
    if path.endswith(".xml"):
        return os.path.getsize(path.replace(".xml", ".bin"))
    import onnx

    return sum(tensor.ByteSize() for tensor in onnx.load(path).graph.initializer)


def ndcg(scores: np.ndarray) -> float:
    """nDCG@10 of 20 queries by 12 documents, of which every fourth is relevant."""
    run = {f"q{i}": {f"d{j}": float(s) for j, s in enumerate(row)} for i, row in enumerate(scores.reshape(20, 12))}
    qrels = {qid: {f"d{j}": int((i + j) % 4 == 0) for j in range(12)} for i, qid in enumerate(run)}
    return evaluate(qrels, {"run": run}, ["nDCG@10"]).mean["run"]["nDCG@10"]


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_drift_of_scores_and_of_ndcg_is_bounded(ranker, tmp_path, name):
    params, pairs, expected = ranker
    if name == "onnx":
        pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
        write_onnx(str(tmp_path), CONFIG, params, int8=True)
    else:
        pytest.importorskip("openvino"), pytest.importorskip("nncf")
        write_openvino(str(tmp_path), CONFIG, params, small_tokenizer(), pairs[::24])
    inputs = feed(CONFIG, *pair_rows(pairs, len(pairs), 0, small_tokenizer()))
    for int8 in (False, True):
        found = session(str(tmp_path / FILES[name, int8]))(inputs)
        assert found.shape == expected.shape and np.isfinite(found).all()
        if (name, int8) in DRIFT:
            assert np.sqrt(np.mean((found - expected) ** 2)) <= DRIFT[name, int8] * expected.std()
            assert abs(ndcg(found) - ndcg(expected)) <= NDCG_DRIFT[name, int8]
    # Most of the weights are bytes.
    whole, small = (weights(str(tmp_path / FILES[name, int8])) for int8 in (False, True))
    assert small < 0.7 * whole


def test_a_tool_of_the_ecosystem_opens_them(ranker, tmp_path):
    """optimum, through which sentence-transformers opens both formats; it follows new versions of transformers late."""
    from harp_jax.checkpoints.huggingface import save_hf

    intel = pytest.importorskip("optimum.intel.openvino", exc_type=ImportError)
    params, pairs, expected = ranker
    save_hf(str(tmp_path / "m"), CONFIG, params, small_tokenizer(), "")
    write_openvino(str(tmp_path / "m"), CONFIG, params, small_tokenizer())
    assert intel.OVModelForSequenceClassification
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(tmp_path / "m"), backend="openvino", device="cpu")
    text = [small_tokenizer().decode(ids) for ids in pairs[0]]
    # In the precision of the machine, which may be bfloat16.
    assert model.predict([tuple(text)])[0] == pytest.approx(expected[0], abs=0.05 * float(np.ptp(expected)))


CONVERTED = """
import sys, warnings
import jax
jax.numpy.zeros(1)
warnings.filterwarnings("error", "os.fork")
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer
from harp_jax.checkpoints.formats import write_openvino
write_openvino(sys.argv[1], CONFIG, random_params(CONFIG), small_tokenizer(), [((2, 3), (4, 5, 6))] * 3)
assert not [name for name in sys.modules if name.startswith("openvino_telemetry")]
"""


def test_conversions_report_nothing_to_anybody(tmp_path):
    """OpenVINO's packages fork a process that sends; JAX warns of the fork."""
    pytest.importorskip("openvino"), pytest.importorskip("nncf")
    command = [sys.executable, "-c", CONVERTED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "os.fork" not in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize(
    "formats, int8, calibration, message",
    [
        (["gguf"], False, [], "--format is one of onnx, openvino, not gguf"),
        ([], True, [], "--int8 belongs to --format"),
        (["openvino"], False, [("query", "document")], "--calibration serves --int8"),
        (["openvino"], True, [], "add --calibration=FILE"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(formats, int8, calibration, message):
    with pytest.raises(InputError, match=message):
        check_formats(formats, int8, calibration)
