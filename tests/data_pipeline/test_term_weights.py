"""Attention weights against one unpadded sequence at a time, summed and averaged by hand."""

import os
from itertools import pairwise

import corpus
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data_pipeline.engine import read
from data_pipeline.pipeline import generate
from data_pipeline.tables import unpack
from data_pipeline.term_weights import Encoder, Sequence, batches
from data_pipeline.weights import DocumentFrequency, attending, from_bytes, piece_spans, save_frequency, word_sums
from harp_jax.bert import BertConfig
from harp_jax.errors import InputError
from harp_jax.heads import Ranker, init_params
from harp_jax.huggingface import save_hf
from harp_jax.tokenizer import load_tokenizer

SHAPE = dict(layers=2, hidden=32, heads=4, intermediate=64)


@pytest.fixture(scope="module")
def encoder_dir(tmp_path_factory):
    """A tiny BERT with uneven attention, as a Hugging Face directory, over the corpus's vocabulary."""
    folder = corpus.write(tmp_path_factory.mktemp("encoder"))
    tokenizer = load_tokenizer(str(folder / "vocab.txt"))
    config = BertConfig(vocab_size=tokenizer.size, **SHAPE)
    params = jax.tree.map(lambda x: 4 * x, init_params(config, jax.random.key(0)))
    save_hf(str(folder / "hf"), config, params, tokenizer, "test")
    return folder, config, params, tokenizer


def slow_attention(config, params, tokenizer, tokens):
    """[n, n] attention of the last layer averaged over heads, [CLS] and [SEP] included: one sequence, no padding."""
    ids = jnp.array([[tokenizer.cls, *tokens, tokenizer.sep]], jnp.int32)
    n = ids.shape[1]
    batch = dict(tokens=ids, segment_ids=jnp.ones_like(ids), position_ids=jnp.arange(n)[None], token_type_ids=0 * ids)
    return np.asarray(Ranker(config).apply({"params": params}, batch, jnp.arange(n)[None], method="attention_rows"))[0]


def test_rows_of_cls_and_anchors(encoder_dir):
    folder, config, params, tokenizer = encoder_dir
    rng = np.random.default_rng(0)
    sequences = []
    for size in (1, 7, 30, 31, 3):
        spans = [(s, min(size, s + 2)) for s in range(0, min(size, 9), 3)] if size != 30 else []
        sequences.append(Sequence(rng.integers(5, tokenizer.size, size).astype(np.int32), spans))
    encoder = Encoder(str(folder / "hf"), tokenizer, "float32", 512)
    rows = list(encoder.rows(sequences))
    found, to_cls = {i: row for i, row, _ in rows}, {i: column for i, _, column in rows}
    assert sorted(found) == list(range(len(sequences)))
    for i, (tokens, spans) in enumerate(sequences):
        attention = slow_attention(config, params, tokenizer, tokens)
        assert found[i].shape == (1 + len(spans), len(tokens))
        np.testing.assert_allclose(found[i][0], attention[0, 1:-1], atol=1e-5)
        for row, (start, end) in zip(found[i][1:], spans):
            slow = sum(attention[1 + piece, 1:-1] for piece in range(start, end)) / (end - start)
            np.testing.assert_allclose(row, slow, atol=1e-5)
        slow = [attention[0, 0], *(attention[1 + start : 1 + end, 0].mean() for start, end in spans)]
        np.testing.assert_allclose(to_cls[i], slow, atol=1e-5)


def test_batches_hold_every_sequence_once_in_few_shapes():
    tokenizer = load_tokenizer_of_five()
    rng = np.random.default_rng(1)
    sequences = [Sequence(np.full(n, 4, np.int32), [(0, 1)]) for n in rng.integers(1, 511, 300)]
    made = list(batches(sequences, 4096, 4, tokenizer))
    assert sorted(i for batch in made for i in batch.members) == list(range(300))
    assert all(batch.tokens.size <= 4096 and batch.tokens.shape[0] % 4 == 0 for batch in made)
    assert len({batch.tokens.shape for batch in made}) <= 9
    slots, tokens = sum(batch.tokens.size for batch in made), sum(int(batch.segment_ids.sum()) for batch in made)
    assert tokens / slots > 0.75


def load_tokenizer_of_five():
    from harp_jax.tokenizer import SPECIAL_TOKENS, Tokenizer

    return Tokenizer(SPECIAL_TOKENS)


def test_word_sums_and_spans():
    lengths = np.array([1, 3, 2])
    rows = np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(word_sums(rows, lengths), [[0, 6, 9], [6, 24, 21]])
    assert word_sums(rows, lengths[:0]).shape == (2, 0)
    anchors = [{"start": 1, "end": 3}, {"start": 0, "end": 1}]
    assert piece_spans(lengths, anchors) == [(1, 6), (0, 1)]
    # The authors' code: the first wordpiece of the anchor, where the sentence has it first.
    tokens = np.arange(int(lengths.sum()))
    assert attending(tokens, lengths, anchors, "span") == [(1, 6), (0, 1)]
    assert attending(tokens, lengths, anchors, "first_piece") == [(1, 2), (0, 1)]
    tokens[1] = tokens[0]
    assert attending(tokens, lengths, anchors, "first_piece") == [(0, 1), (0, 1)]


def test_job_with_attention_weights_stores_them_and_takes_them_back(encoder_dir, tmp_path):
    folder, config, params, tokenizer = encoder_dir
    encoder, output = str(folder / "hf"), tmp_path / "out"
    generate(
        corpus.config(folder, tokenizer=encoder, encoder=encoder, keep_work=True, tasks=("rqp", "rdp"), workers=1),
        str(output),
    )
    job = {
        "work": str(output / ".work"),
        "elsewhere": {"sentence_weights": str(output / "term_weights" / "sentence_weights")},
    }
    sentences, weights = (read(job, name, 1).to_pylist() for name in ("sentences", "sentence_weights"))
    assert len(sentences) == len(weights) > 10
    for sentence, weight in list(zip(sentences, weights))[:5]:
        assert (sentence["doc"], sentence["start"]) == (weight["doc"], weight["start"])
        tokens, lengths = unpack(sentence["tokens"]), unpack(sentence["lengths"])
        attention = slow_attention(config, params, tokenizer, tokens)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        slow = [sum(attention[0, 1 + piece] for piece in range(a, b)) for a, b in pairwise(bounds)]
        np.testing.assert_allclose(from_bytes(weight["cls"]), slow, rtol=2e-3, atol=1e-5)
        assert len(from_bytes(weight["anchors"])) == len(sentence["anchors"]) * len(lengths)
    again = tmp_path / "again"
    given = corpus.config(
        folder,
        tokenizer=encoder,
        encoder="",
        term_weights=str(output / "term_weights"),
        tasks=("rqp", "rdp"),
        workers=1,
    )
    generate(given, str(again))
    shards = sorted(path.name for path in output.glob("harp-*"))
    assert all((again / name).read_bytes() == (output / name).read_bytes() for name in shards)
    target = next((output / "term_weights" / "passage_weights").rglob("*.parquet"))
    os.truncate(target, target.stat().st_size - 1)
    with pytest.raises(InputError, match="do not match"):
        generate(given, str(tmp_path / "damaged"))


def test_another_vocabulary_is_refused(encoder_dir, tmp_path):
    folder = encoder_dir[0]
    other = tmp_path / "vocab.txt"
    other.write_text((folder / "vocab.txt").read_text() + "another\n")
    with pytest.raises(InputError, match="is not that of config.tokenizer"):
        generate(corpus.config(folder, tokenizer=str(other), encoder=str(folder / "hf")), str(tmp_path / "out"))


def test_idf_of_hashed_words(tmp_path):
    path = str(tmp_path / "frequency.npz")
    save_frequency(path, {"word": np.array([5, -3, 9]), "n": np.array([2, 1, 4])}, 10)
    found = DocumentFrequency(path).idf(np.array([9, 7, -3, 99]))
    np.testing.assert_allclose(found, np.log([11 / 4.5, 11 / 0.5, 11 / 1.5, 11 / 0.5]))
    save_frequency(path, {"word": np.zeros(0, np.int64), "n": np.zeros(0, np.int64)}, 10)
    np.testing.assert_allclose(DocumentFrequency(path).idf(np.array([9])), np.log([22]))
