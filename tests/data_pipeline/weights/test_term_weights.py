"""Attention weights against those of single unpadded sequences, summed and averaged by hand."""

import json
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.tables import unpack
from data_pipeline.pipeline import generate
from data_pipeline.weights import attention_weights
from data_pipeline.weights.attention_weights import Encoder, TokenSpans, identify
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.input.records import read_manifest
from harp_jax.model.cross_encoder import Ranker, init_params
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.generation_job import hashes, table


@pytest.fixture(scope="module")
def encoder_dir(tmp_path_factory):
    """A tiny BERT with uneven attention and the corpus's vocabulary, in a Hugging Face directory."""
    folder = corpus.write(tmp_path_factory.mktemp("encoder"))
    tokenizer = load_tokenizer(str(folder / "vocab.txt"))
    config = BertShape(tokenizer.size, layers=2, hidden=32, heads=4, intermediate=64, max_positions=600)
    params = jax.jit(lambda key: jax.tree.map(lambda x: 4 * x, init_params(config, key)))(jax.random.key(0))
    save_hf(str(folder / "hf"), config, params, tokenizer, "test")
    return folder, config, params, tokenizer


def slow_attention(config, params, tokenizer, tokens):
    """[n, n] attention of the last layer averaged over heads, [CLS] and [SEP] included: one sequence, no padding."""
    ids = jnp.array([[tokenizer.cls, *tokens, tokenizer.sep]], jnp.int32)
    n = ids.shape[1]
    batch = dict(tokens=ids, segment_ids=jnp.ones_like(ids), position_ids=jnp.arange(n)[None], token_type_ids=0 * ids)
    rows = jax.jit(lambda *inputs: Ranker(config).apply({"params": inputs[0]}, *inputs[1:], method="attention_rows"))
    return np.asarray(rows(params, batch, jnp.arange(n)[None]))[0]


def job(folder, **fields):
    given = {"tokenizer": str(folder / "hf"), "encoder": str(folder / "hf"), "tasks": ("rqp", "rdp"), "workers": 1}
    return corpus.config(folder, **given | fields)


def weigh(folder, tokenizer, sequences, dtype="float32"):
    """Number → (rows, attention to [CLS]) of each sequence."""
    encoder = Encoder(str(folder), tokenizer, dtype, 512, jax.local_devices())
    return {i: (rows, to_cls) for i, rows, to_cls in encoder.rows(sequences)}


def test_rows_of_cls_and_anchors(encoder_dir):
    folder, config, params, tokenizer = encoder_dir
    rng = np.random.default_rng(0)
    # An alphabet without spaces, each letter a link: every anchor is the same word of 33 pieces, queried once.
    alphabet = [(4, 37)] * 33 + [(2, 3), (36, 40)]
    # The last text is as long as the encoder reads.
    lengths = {1: [(0, 1)], 7: [(0, 2), (3, 5), (6, 7)], 30: [], 40: alphabet, 598: [(590, 598)]}
    sequences = [
        TokenSpans(rng.integers(5, tokenizer.size, size).astype(np.int32), spans) for size, spans in lengths.items()
    ]
    (batch,) = Encoder(str(folder / "hf"), tokenizer, "float32", 512, jax.devices()[:1]).batches(sequences[3:4])
    assert 1 + 38 <= batch.queries.shape[1] <= 512
    weights = weigh(folder / "hf", tokenizer, sequences)
    assert sorted(weights) == list(range(len(sequences)))
    for i, (tokens, spans) in enumerate(sequences):
        slow, (rows, to_cls) = slow_attention(config, params, tokenizer, tokens), weights[i]
        assert rows.shape == (1 + len(spans), len(tokens))
        for row, column, (start, end) in zip(rows, to_cls, [(-1, 0), *spans], strict=True):
            np.testing.assert_allclose(row, slow[1 + start : 1 + end, 1:-1].mean(axis=0), atol=1e-6)
            np.testing.assert_allclose(column, slow[1 + start : 1 + end, 0].mean(), atol=1e-5)


def test_word_sums_and_spans():
    lengths, rows = np.array([1, 3, 2]), np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(attention_weights.word_sums(rows, lengths), [[0, 6, 9], [6, 24, 21]])
    anchors = [{"start": 1, "end": 3}, {"start": 0, "end": 1}]
    assert attention_weights.attending(np.arange(6), lengths, anchors, "span") == [(1, 6), (0, 1)]
    # The authors' code uses the anchor's first wordpiece, at its first place in the sentence.
    for tokens, first in ((np.arange(6), (1, 2)), (np.zeros(6), (0, 1))):
        assert attention_weights.attending(tokens, lengths, anchors, "first_token") == [first, (0, 1)]


@pytest.fixture(scope="module")
def weighed(encoder_dir, tmp_path_factory):
    """The output of a job with attention weights."""
    output = tmp_path_factory.mktemp("weighed") / "out"
    generate(job(encoder_dir[0], keep_work=True), str(output), SerialEngine)
    return output


def test_a_job_takes_a_copy_of_its_weights_unless_damaged_or_of_another_tokenizer(encoder_dir, weighed, tmp_path):
    folder = encoder_dir[0]

    def copied(name):
        return shutil.copytree(weighed / "term_weights", tmp_path / name / "term_weights")

    before = {path: path.stat().st_mtime_ns for path in copied("again").rglob("*.parquet")}
    generate(job(folder, seed=0), str(tmp_path / "again"), SerialEngine)
    assert hashes(tmp_path / "again") == hashes(weighed) != {}
    assert before == {path: path.stat().st_mtime_ns for path in before} != {}
    damaged = copied("damaged")
    meta = (damaged / "meta.json").read_text()
    (damaged / "meta.json").write_text(meta.replace('"encoder": {', '"encoder": [], "was": {'))
    target = next((copied("truncated") / "passage_weights").rglob("*.parquet"))
    os.truncate(target, target.stat().st_size - 1)
    unfinished = ("manifest.json", "made.json", "term_weights")
    shutil.copytree(weighed, tmp_path / "lost", ignore=lambda *_: unfinished)
    copied("other")
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "another\n")
    for name, fields, message in (
        ("damaged", {}, r"meta.json is damaged: encoder is '\[\]'"),
        ("truncated", {}, "do not match|is damaged"),
        ("lost", {}, r"weigh \S+, which a finished stage wrote, is missing; remove \S+.* run"),
        ("other", {"document_title": True}, "made for other input"),
        ("out", {"tokenizer": str(tmp_path / "vocab.txt")}, "differs from that of config.tokenizer"),
    ):
        with pytest.raises(InputError, match=message):
            generate(job(folder, **fields), str(tmp_path / name), SerialEngine)


def altered(source, target, changes, **config):
    """A copy of a Hugging Face directory with some tensors and some fields of config.json changed."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("SHA256SUMS"))
    state = load_file(str(target / "model.safetensors"))
    state |= {name: np.ascontiguousarray(change(state[name])) for name, change in changes.items()}
    save_file(state, str(target / "model.safetensors"))
    fields = json.loads((target / "config.json").read_text()) | config
    (target / "config.json").write_text(json.dumps(fields))
    return target


WORDS = "bert.embeddings.word_embeddings.weight"
POSITIONS = "bert.embeddings.position_embeddings.weight"


def test_encoder_of_few_positions_reads_that_far(encoder_dir, tmp_path):
    folder = encoder_dir[0]
    short = altered(folder / "hf", tmp_path / "hf", {POSITIONS: lambda x: x[:20]}, max_position_embeddings=20)
    output = tmp_path / "out"
    fields = dict(tokenizer=str(short), encoder=str(short), keep_work=True, tasks=("rqp",))
    generate(job(folder, **fields), str(output), SerialEngine)
    sizes = [len(unpack(row["tokens"])) for each in (tables.SENTENCES, tables.PASSAGES) for row in table(output, each)]
    assert 14 <= max(sizes) <= 18
    assert read_manifest(str(output))["losses"]["anchor-outside-window"]["count"] > 10
    assert json.loads((output / "term_weights" / "meta.json").read_text())["encoder"]["positions"] == 20


def test_bfloat16_gives_nearly_the_same_weights(encoder_dir):
    folder, _, _, tokenizer = encoder_dir
    sequences = [TokenSpans(np.arange(5, 5 + n, dtype=np.int32), [(0, 2)]) for n in range(3, 60, 4)]
    exact, rough = (weigh(folder / "hf", tokenizer, sequences, dtype) for dtype in ("float32", "bfloat16"))
    for i, (rows, _) in exact.items():
        # Large, because this encoder's parameters are four times fresh ones, for uneven attention.
        assert np.abs(rows - rough[i][0]).max() < 0.05 * rows.max()


def test_an_encoder_is_known_by_its_content(encoder_dir, weighed, tmp_path):
    """Term weights are reused if the same encoder has moved, but not with another encoder."""
    folder = encoder_dir[0]
    moved = shutil.copytree(folder / "hf", tmp_path / "moved")
    words = altered(folder / "hf", tmp_path / "words", {WORDS: lambda x: 1.1 * x})
    heads = altered(folder / "hf", tmp_path / "heads", {}, num_attention_heads=2)
    known, same, *others = (identify(str(each)) for each in (folder / "hf", moved, words, heads))
    assert known == same and known not in others
    with pytest.raises(InputError, match="from another content of config.encoder"):
        generate(job(folder, encoder=str(words)), str(weighed))
    generate(job(folder, encoder=str(moved)), str(weighed))
