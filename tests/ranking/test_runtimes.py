"""Re-ranking with OpenVINO and ONNX Runtime: JAX's scores, from files in the export or converted once."""

import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.files import SUMS
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.onnx_openvino import FILES, model_files, write_onnx, write_openvino
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.ranking import runtimes
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import BiEncoderScorer, load_sentence_encoder
from harp_jax.text.tokenizer import NO_MARKS, Marks
from tests.support.commands import python
from tests.support.tiny_bert import CONFIG, WORDS, random_params, small_tokenizer

RNG = np.random.default_rng(0)
VOCABULARY = [word for word in WORDS.split() if not word.startswith("##")]
PAIRS = [
    (" ".join(RNG.choice(VOCABULARY, RNG.integers(1, 50))), " ".join(RNG.choice(VOCABULARY, RNG.integers(0, 50))))
    for _ in range(40)
]
as_openvino = lambda folder: write_openvino(folder, CONFIG, PARAMS, small_tokenizer())  # noqa: E731
DENSE = ({"kernel": RNG.normal(size=(CONFIG.hidden, 8)).astype(np.float32), "bias": np.zeros(8, np.float32)},)
PARAMS = {name: tree for name, tree in random_params(CONFIG).items() if name in ("encoder", "pooler", "score")}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An export without converted files, with marks before query and document."""
    directory = str(tmp_path_factory.mktemp("runtimes") / "model")
    tokenizer = replace(small_tokenizer(), max_length=30)
    marks = Marks(tokenizer.vocab["[unused0]"], tokenizer.vocab["[unused1]"])
    save_hf(directory, CONFIG, PARAMS, tokenizer, "", marks)
    return directory


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harp_jax" / "converted"


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
def test_scores_are_those_of_jax_and_the_model_is_converted_once(model, cache, monkeypatch, backend):
    pytest.importorskip(runtimes.PACKAGES[backend])
    jax = Reranker.from_pretrained(model)
    ours, marks, words = jax.predict(PAIRS), jax.scorer.marks, small_tokenizer().vocab
    by_hand = np.array([marks.query, words["cat"]], np.int32), np.array([marks.document, words["dog"]], np.int32)
    jax.scorer.marks = NO_MARKS
    assert jax.scorer.score([by_hand])[0] == pytest.approx(Reranker.from_pretrained(model).predict([("cat", "dog")])[0])
    there = Reranker.from_pretrained(model, backend=backend, batch_tokens=64)
    np.testing.assert_allclose(there.predict(PAIRS), ours, rtol=0, atol=2e-5 * np.abs(ours).max())
    assert there.scorer.truncated_queries > 0 and there.predict([]).shape == (0,)
    assert [os.listdir(path) for path in cache.iterdir()] == [[backend]]
    monkeypatch.delattr(runtimes, f"write_{backend}")  # it would raise if the model were converted again
    assert Reranker.from_pretrained(model, backend=backend).predict(PAIRS[:1])[0] == pytest.approx(ours[0], abs=1e-4)


def test_a_signal_after_another_thread_freed_the_model_is_handled(tmp_path):
    """OpenVINO replaces the stack of signal handlers where it is loaded, and unmaps it where it is freed."""
    pytest.importorskip("openvino")
    as_openvino(str(tmp_path))
    program = (
        "import faulthandler, signal, sys, threading\n"
        "from harp_jax.ranking.runtimes import openvino_runtime\n"
        "faulthandler.enable()\n"  # gives handlers a stack of their own, as servers and pytest do
        "signal.signal(signal.SIGTERM, lambda *_: print('handled'))\n"
        "models = [openvino_runtime(sys.argv[1], 'float32')]\n"
        "thread = threading.Thread(target=models.clear)\n"
        "thread.start(), thread.join(), signal.raise_signal(signal.SIGTERM)\n"
    )
    assert python("-c", program, tmp_path / FILES["openvino", False]).stdout == "handled\n"


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
def test_vectors_are_those_of_jax(tmp_path, backend):
    pytest.importorskip(runtimes.PACKAGES[backend])
    save_hf(str(tmp_path / "m"), CONFIG, {"encoder": PARAMS["encoder"]}, small_tokenizer(), "")
    config, params, tokenizer, _ = load_sentence_encoder(str(tmp_path / "m"))
    runtime = runtimes.load_runtime(backend, "float32", str(tmp_path / "m"), config, params, tokenizer)
    texts = [np.asarray(tokenizer.encode(text), np.int32) for pair in PAIRS for text in pair]
    for made in (Embedding(), Embedding("cls", ("Tanh",), DENSE, ("query : ", ""))):
        ours = BiEncoderScorer(config, params, tokenizer, 30, None, made)
        there = BiEncoderScorer(config, params, tokenizer, 30, None, made, runtime)
        queries = [*map(ours.as_query, texts)]
        assert (ours.vectors(queries) * there.vectors(queries)).sum(1).min() > 0.99999
        assert there.vectors([]).shape == (0, there.size)
    ours, theirs = (predict(load_scorer(str(tmp_path / "m"), cosine=True, backend=b), PAIRS) for b in ("jax", backend))
    np.testing.assert_allclose(theirs, ours, atol=1e-6)


@pytest.mark.parametrize("backend", [pytest.param("openvino", marks=pytest.mark.real), "onnx"])
def test_a_changed_model_is_named_or_converted_again(cache, tmp_path, backend):
    pytest.importorskip(runtimes.PACKAGES[backend])
    folder, place = tmp_path / "m", str(tmp_path / "m")
    write = partial(write_onnx, config=CONFIG, params=PARAMS) if backend == "onnx" else as_openvino
    save_hf(place, CONFIG, PARAMS, small_tokenizer(), "", more=write)
    (folder / FILES[backend, True]).write_bytes(b"of another model")
    with pytest.raises(InputError, match="is not listed in SHA256SUMS"):
        load_scorer(place, "int8", backend=backend)
    name = model_files(backend, False)[-1]
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(InputError, match=f"{name} was changed since it was written"):
        load_scorer(place, backend=backend)
    ours = Reranker.from_pretrained(place).predict(PAIRS[:3])
    # If somebody changed the weights on purpose (and removed the digests), the old converted file is not used.
    other = {**PARAMS, "score": {name: -leaf for name, leaf in PARAMS["score"].items()}}
    save_hf(str(tmp_path / "other"), CONFIG, other, small_tokenizer(), "")
    os.replace(tmp_path / "other" / "model.safetensors", folder / "model.safetensors")
    os.remove(folder / SUMS)
    for _ in range(2):  # the second time, the converted file is damaged
        found = Reranker.from_pretrained(place, backend=backend).predict(PAIRS[:3])
        np.testing.assert_allclose(found, -ours, rtol=0, atol=2e-5 * np.abs(ours).max())
        (converted,) = cache.glob(f"*/{name}")
        converted.write_bytes(b"damaged")


def test_what_a_backend_cannot_do_is_refused(model):
    for backend, dtype, said in (
        ("onnx", "bfloat16", "--backend=onnx does not support bfloat16; choose from openvino"),
        ("auto", "int8", "add it to the export with harp export --format=openvino --int8"),
    ):
        with pytest.raises(InputError, match=said):
            load_scorer(model, dtype, backend=backend)
