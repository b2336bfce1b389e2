"""Encoders and tokenizers, from pre-training to a re-ranked run and a generation job."""

import re
from collections.abc import Mapping
from string import ascii_lowercase

import jax
import numpy as np
import pytest

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.text.terms import STOPWORDS, load_terms
from data_pipeline.weights.tokenised import LONGEST
from harp_jax import config as configs
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.export import export_model
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.input.packing import Group, pair_sequences
from harp_jax.model.encoders.table import ENCODERS
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support import corpus
from tests.support.generation_job import records, table
from tests.support.tiny_bert import WORDS
from tests.support.tiny_run import with_pairs
from tests.support.tokenizers import save_trained

LINES = [word for word in WORDS.split() if word.isalpha()]


def text(*key: object) -> str:
    rng = generator("seam", *key)
    return " ".join(rng.choice(LINES, rng.integers(6, 30))).capitalize() + "."


class PairReader:
    """A `packing.Reader` of tokenized text pairs; the query has words of the positive document."""

    def __init__(self, tokenizer: Tokenizer, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length
        self.sizes: Mapping[str, int] = {"qdm": 10_000}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        ids = lambda text: np.asarray(self.tokenizer.encode(text), np.int32)  # noqa: E731
        groups = []
        for number in range(start, start + count):
            positive, negative = text(lane, number), text("other", lane, number)
            query = " ".join(positive.split()[:3])
            sides = (ids(query), ids(positive), ids(""), ids(negative))
            groups.append(Group(0, pair_sequences(*sides, self.length, self.tokenizer.template)))
        return groups


# Published models → their model_type and the kind of their tokenizer (`save_trained`).
MODELS = {
    "modernbert": ("modernbert", "modernbert"),
    "xlm-roberta": ("xlm-roberta", "xlm-roberta"),
    "mmbert": ("modernbert", "gemma"),
    "roberta": ("roberta", "roberta"),
    "distilbert": ("distilbert", "bert"),
    "multilingual-e5-small": ("bert", "xlm-roberta"),
}
# Some tests use only models that cover all parts. What is specific to the others is also tested without training.
TWO = ["modernbert", "xlm-roberta"]
MMBERT, *SLOW = (pytest.param(name, marks=pytest.mark.real) for name in MODELS if name not in TWO)


@pytest.fixture(scope="module", params=[*TWO, MMBERT, *SLOW])
def model(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def known(model, tmp_path_factory) -> str:
    """A trained tokenizer of the model's kind."""
    lines, kind = [*map(text, range(200))], MODELS[model][1]
    if kind == "xlm-roberta":  # Unigram knows only letters of its training text; the generation job has others
        lines.append(" ".join(ascii_lowercase))
    if kind == "bert":  # WordPiece has separate tokens for letters within words
        lines.append(ascii_lowercase)
    return save_trained(kind, str(tmp_path_factory.mktemp("tokenizer")), lines)


def small_config(model: str, tokenizer: str):
    c = configs.pretrain()
    c.tokenizer, c.tasks, c.mlm_whole_words = tokenizer, ("qdm",), True
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 2, 32, 2, 96
    c.model.model_type, c.model.dropout = MODELS[model][0], 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes = 96, 16, 64, 2
    c.dtype, c.steps, c.log_every, c.learning_rate, c.warmup = "float32", 60, 5, 5e-3, 0.05
    return c


@pytest.fixture(scope="module")
def trained(model, known, tmp_path_factory):
    """(workdir, export) of a pre-training run."""
    folder = tmp_path_factory.mktemp("run")
    config = small_config(model, known)
    stage = pretrain_stage(config, with_data=False)
    stage = with_pairs(stage, config, PairReader(stage.tokenizer, config.row_length))
    workdir, output = str(folder / "run"), str(folder / "export")
    train(config, workdir, stage, jax.devices()[:1])
    export_model(workdir, output)
    return workdir, output


def test_pre_training_learns_and_the_export_scores_and_starts_as_the_workdir(model, trained):
    workdir, output = trained
    losses = [row["mlm_loss"] for row in read_metrics(workdir) if row["split"] == "train"]
    assert losses[-1] < losses[0] - 1
    shape, params = load_encoder(workdir)
    exported_shape, exported = load_hf(output)
    assert type(shape) is type(exported_shape) is ENCODERS[MODELS[model][0]].shape
    jax.tree.map(np.testing.assert_array_equal, params, exported)
    pairs = [("cat mat", text("d", i)) for i in range(9)]
    scores = Reranker.from_pretrained(output).predict(pairs)
    np.testing.assert_array_equal(scores, Reranker.from_pretrained(workdir).predict(pairs))
    assert len(np.unique(scores)) == 9
    tuned, coarse = configs.finetune(), configs.coarse_tune()
    tuned.init_head = "pretrained"
    for config, stage in ((tuned, finetune_stage), (coarse, coarse_tune_stage)):
        config.update(init=output, tokenizer="", marks=(), row_length=96)
        start = stage(config, with_data=False)
        jax.tree.map(np.testing.assert_array_equal, start.start(start.encoder, jax.random.key(9)), exported)
        config.row_length = 97
        with pytest.raises(InputError, match="row_length=97 exceeds the encoder's 96 positions; lower it"):
            stage(config, with_data=False)


def test_what_others_load_scores_the_same(trained, tmp_path):
    """Loaded strictly as the class that servers use, in sentence-transformers, ONNX and OpenVINO; nearly so in int8."""
    import transformers
    from sentence_transformers import CrossEncoder

    pytest.importorskip("tensorflow")  # loads it: OpenVINO's converter failed beside it on Python 3.13
    workdir, output = trained
    pairs = [("cat mat", text("d", i)) for i in range(5)] + [("red", "red"), ("cat", " ".join(map(text, range(9))))]
    expected = Reranker.from_pretrained(output).predict(pairs)
    scale = np.abs(expected).max()
    network, info = transformers.AutoModelForSequenceClassification.from_pretrained(output, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    assert network.config.id2label == {0: "LABEL_0"}
    # BERT's keeps the decoder's class.
    assert network.config.architectures[0] in (type(network).__name__, "BertForPreTraining")
    np.testing.assert_allclose(CrossEncoder(output, device="cpu").predict(pairs), expected, rtol=0, atol=1e-5 * scale)
    found = [("jax bfloat16", 0.03, Reranker.from_pretrained(output, dtype="bfloat16"))]
    for backend in ("onnx", "openvino"):
        place, texts = str(tmp_path / backend), pairs * 8 if backend == "openvino" else []
        export_model(workdir, place, ranker=True, formats=[backend], int8=True, calibration=texts)
        for dtype, apart in (("float32", 1e-4), ("int8", 0.03)):
            ranker = Reranker.from_pretrained(place, backend=backend, dtype=dtype)
            found.append((f"{backend} {dtype}", apart, ranker))
    for name, apart, ranker in found:
        np.testing.assert_allclose(ranker.predict(pairs), expected, rtol=0, atol=apart * scale, err_msg=name)


@pytest.mark.parametrize("model", [*TWO, MMBERT], indirect=True, scope="module")
def test_pairs_are_of_whole_words(trained, tmp_path):
    """A generation job with the encoder's term weights and its tokenizer (byte-level BPE, Unigram).

    Queries consist of whole words of the corpus, without stopwords; S2 has S1's length and no word of the anchor.
    """
    tasks = ("rqp", "qdm", "rdp", "acm", "adp", "mlm")
    fields = {"tokenizer": trained[1], "encoder": trained[1], "tasks": tasks, "weighting": "normalised", "workers": 1}
    output, terms = tmp_path / "out", load_terms(trained[1], "")
    generate(corpus.config(corpus.write(tmp_path), **fields, keep_work=True), str(output), SerialEngine)
    words = set(re.findall(r"\w+", " ".join(corpus.page(i)["text"].lower() for i in range(corpus.PAGES))))
    requests = {(row["task"], row["key"]): row for row in table(output, tables.REQUESTS)}
    seen = dict.fromkeys(("rqp", "qdm", "acm", "adp"), 0)
    for row in records(output):
        task = row["task"].decode()
        if task not in seen:
            continue
        seen[task] += 1
        anchor = set(requests[task, row["key"].decode()]["anchor"].split())
        s1, s2 = (terms.tokenizer.decode(row[side]).split() for side in ("pos_query", "neg_query"))
        assert set(s1) | set(s2) <= words and anchor <= set(s1) | set(anchor if task == "qdm" else ())
        assert not any(word in STOPWORDS for word in [*s1, *s2] if word not in anchor)
        if task == "rqp":
            assert len(s1) == len(s2) and not anchor & set(s2)
    assert min(seen.values()) > 20
    assert max(len(row["text"]) for row in records(output) if row["task"] == b"mlm") <= LONGEST - 2  # 2 special tokens
