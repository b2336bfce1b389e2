"""Attention weights against those of single unpadded sequences, summed and averaged by hand."""

import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.weights import term_weights
from data_pipeline.weights.term_weights import Encoder, TokenSpans
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.model.cross_encoder import Ranker, init_params
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.generation_job import hashes


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


def weigh(folder, tokenizer, sequences, dtype):
    """Number → (rows, attention to [CLS]) of each sequence."""
    return {i: (rows, to_cls) for i, rows, to_cls in Encoder(str(folder), tokenizer, dtype).rows(sequences)}


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
    (batch,) = Encoder(str(folder / "hf"), tokenizer, "float32").batches(sequences[3:4])
    assert 1 + 38 <= batch.queries.shape[1] <= 512
    weights, rough = (weigh(folder / "hf", tokenizer, sequences, dtype) for dtype in ("float32", "bfloat16"))
    for i, (tokens, spans) in enumerate(sequences):
        slow, (rows, to_cls) = slow_attention(config, params, tokenizer, tokens), weights[i]
        assert rows.shape == (1 + len(spans), len(tokens))
        for row, column, (start, end) in zip(rows, to_cls, [(-1, 0), *spans], strict=True):
            np.testing.assert_allclose(row, slow[1 + start : 1 + end, 1:-1].mean(axis=0), atol=1e-6)
            np.testing.assert_allclose(column, slow[1 + start : 1 + end, 0].mean(), atol=1e-5)
        # Large, because this encoder's parameters are four times fresh ones, for uneven attention.
        assert np.abs(rows - rough[i][0]).max() < 0.05 * rows.max()


def test_word_sums_and_spans():
    lengths, rows = np.array([1, 3, 2]), np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(term_weights.word_sums(rows, lengths), [[0, 6, 9], [6, 24, 21]])
    anchors = [{"start": 1, "end": 3}, {"start": 0, "end": 1}]
    assert term_weights.attending(np.arange(6), lengths, anchors, "span") == [(1, 6), (0, 1)]
    # The authors' code uses the anchor's first wordpiece, at its first place in the sentence.
    for tokens, first in ((np.arange(6), (1, 2)), (np.zeros(6), (0, 1))):
        assert term_weights.attending(tokens, lengths, anchors, "first_token") == [first, (0, 1)]


def test_a_job_takes_a_copy_of_its_weights_unless_damaged_or_of_another_tokenizer(encoder_dir, tmp_path):
    folder, weighed = encoder_dir[0], tmp_path / "out"
    generate(job(folder), str(weighed), SerialEngine)

    def copied(name):
        return shutil.copytree(weighed / "term_weights", tmp_path / name / "term_weights")

    before = {path: path.stat().st_mtime_ns for path in copied("again").rglob("*.parquet")}
    generate(job(folder, seed=0), str(tmp_path / "again"), SerialEngine)
    assert hashes(tmp_path / "again") == hashes(weighed) != {}
    assert before == {path: path.stat().st_mtime_ns for path in before} != {}
    os.remove(next((copied("damaged") / "passage_weights").rglob("*.parquet")))
    copied("other")
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "another\n")
    for name, fields, message in (
        ("damaged", {}, "do not match"),
        ("other", {"document_title": True}, "made for other input"),
        ("none", {"tokenizer": str(tmp_path / "vocab.txt")}, "differs from that of config.tokenizer"),
    ):
        with pytest.raises(InputError, match=message):
            generate(job(folder, **fields), str(tmp_path / name), SerialEngine)
