"""Encoders and tokenizers, from pre-training to a re-ranked run and a generation job."""

import re
from collections import Counter
from functools import partial
from string import ascii_lowercase

import jax
import numpy as np
import pytest

from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from harp_jax import config as configs
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.export import export_model
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.model.encoders.table import ENCODERS
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from tests.support import corpus, planted_pairs
from tests.support.generation_job import records
from tests.support.tiny_bert import WORDS
from tests.support.tokenizers import save_trained

LINES = [word for word in WORDS.split() if word.isalpha()]


def text(*key: object) -> str:
    rng = generator("seam", *key)
    return " ".join(rng.choice(LINES, rng.integers(6, 30))).capitalize() + "."


def token_pair(tokenizer: Tokenizer, split: str, lane: int, number: int) -> planted_pairs.Pair:
    """The query has words of the positive document."""
    positive, negative = text(split, lane, number), text("other", split, lane, number)
    query = " ".join(positive.split()[:3])
    return tuple(np.asarray(tokenizer.encode(each), np.int32) for each in (query, positive, negative))


# The model_type and the kind of the tokenizer (`save_trained`): ModernBERT and XLM-R together have all parts; mmBERT.
MODELS = [("modernbert", "modernbert"), ("xlm-roberta", "xlm-roberta")]
MMBERT = pytest.param(("modernbert", "gemma"), marks=pytest.mark.real)


@pytest.fixture(scope="module", params=[*MODELS, MMBERT], ids="-".join)
def model(request) -> tuple[str, str]:
    return request.param


@pytest.fixture(scope="module")
def known(model, tmp_path_factory) -> str:
    """A trained tokenizer of the model's kind."""
    # Unigram knows only letters of its training text; the generation job has others.
    lines = [*map(text, range(200)), " ".join(ascii_lowercase)]
    return save_trained(model[1], str(tmp_path_factory.mktemp("tokenizer")), lines)


@pytest.fixture(scope="module")
def trained(model, known, tmp_path_factory):
    """(workdir, export) of a pre-training run."""
    c = configs.pretrain()
    c.tokenizer, c.tasks, c.mlm_whole_words = known, ("qdm",), True
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 2, 32, 2, 96
    c.model.model_type, c.model.dropout = model[0], 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes = 96, 16, 64, 2
    c.dtype, c.steps, c.log_every, c.learning_rate, c.warmup = "float32", 60, 5, 5e-3, 0.05
    folder, pairs = tmp_path_factory.mktemp("run"), partial(token_pair, load_tokenizer(known))
    workdir, output = planted_pairs.trained(c, str(folder), pairs), str(folder / "export")
    export_model(workdir, output)
    return workdir, output


def test_pre_training_learns_and_other_trainings_start_from_its_export(model, trained):
    workdir, output = trained
    losses = [row["mlm_loss"] for row in read_metrics(workdir) if row["split"] == "train"]
    assert losses[-1] < losses[0] - 1
    shape, params = load_encoder(workdir)
    exported_shape, exported = load_hf(output)
    assert type(shape) is type(exported_shape) is ENCODERS[model[0]]
    jax.tree.map(np.testing.assert_array_equal, params, exported)
    tuned, coarse = configs.finetune(), configs.coarse_tune()
    tuned.init_head = "pretrained"
    for config, stage in ((tuned, finetune_stage), (coarse, coarse_tune_stage)):
        config.update(init=output, tokenizer="", marks=(), row_length=96)
        start = stage(config, with_data=False)
        jax.tree.map(np.testing.assert_array_equal, start.start(start.encoder, jax.random.key(9)), exported)
        config.row_length = 97
        with pytest.raises(InputError, match="row_length=97 exceeds the encoder's 96 positions; lower it"):
            stage(config, with_data=False)


def test_other_runtimes_score_the_same(trained, tmp_path):
    """ONNX and OpenVINO; nearly so in 8 and 16 bits. Torch: tests/checkpoints."""
    pytest.importorskip("tensorflow")  # loads it: OpenVINO's converter failed beside it on Python 3.13
    workdir, output = trained
    pairs = [("cat mat", text("d", i)) for i in range(5)] + [("red", "red"), ("cat", " ".join(map(text, range(9))))]
    expected = Reranker.from_pretrained(output).predict(pairs)

    def check(apart: float, path: str, **options: str) -> None:
        scores = Reranker.from_pretrained(path, **options).predict(pairs)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=apart * np.abs(expected).max(), err_msg=f"{options}")

    check(0.03, output, dtype="bfloat16")
    for backend in ("onnx", "openvino"):
        path, texts = str(tmp_path / backend), pairs * 8 if backend == "openvino" else []
        export_model(workdir, path, ranker=True, formats=[backend], int8=True, calibration=texts)
        check(1e-4, path, backend=backend, dtype="float32")
        check(0.03, path, backend=backend, dtype="int8")


def test_pairs_are_of_whole_words(trained, tmp_path):
    """Queries of a generation job with the encoder's term weights and its tokenizer (byte-level BPE, Unigram)."""
    fields = {"tokenizer": trained[1], "encoder": trained[1], "tasks": ("rqp", "qdm", "rdp", "acm", "adp")}
    config = corpus.config(corpus.write(tmp_path), **fields, weighting="normalised", workers=1)
    output, tokenizer = tmp_path / "out", load_tokenizer(trained[1])
    generate(config, str(output), SerialEngine)
    words = set(re.findall(r"\w+", " ".join(corpus.page(i)["text"].lower() for i in range(corpus.PAGES))))
    rows = [row for row in records(output) if row["task"] in (b"rqp", b"qdm", b"acm", b"adp")]
    for row in rows:
        assert {word for side in ("pos_query", "neg_query") for word in tokenizer.decode(row[side]).split()} <= words
    tasks = Counter(row["task"] for row in rows)
    assert len(tasks) == 4 and min(tasks.values()) > 20
