"""Cosines of mean-pooled vectors, compared with torch."""

import numpy as np
import pytest

from harp_jax.ranking import scorers
from harp_jax.ranking.rerank import load_scorer
from harp_jax.ranking.scorers import BiEncoderScorer
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import save_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(str(tmp_path_factory.mktemp("encoder") / "hf"), tokenizer(), 64)


def test_scores_are_the_cosines_of_torch(encoder):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(encoder).double()
    ids = tokenizer()

    def vector(text):
        with torch.no_grad():
            return model(torch.tensor([[ids.cls, *text, ids.sep]])).last_hidden_state[0].mean(0)

    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 211, n).astype(np.int32) for n in (1, 3, 40, 62, 7, 18)]
    pairs = [(texts[i], texts[j]) for i in range(3) for j in range(6)]
    scorer = load_scorer(encoder, cosine=True)
    expected = [float(torch.cosine_similarity(vector(a), vector(b), dim=0)) for a, b in pairs]
    np.testing.assert_allclose(scorer.score(pairs), expected, atol=2e-6)


def test_embeds_a_text_once_until_too_many_are_kept(encoder, monkeypatch):
    monkeypatch.setattr(scorers, "KNOWN", 3)
    scorer, embedded = BiEncoderScorer.load(encoder), []
    vectors = scorer.vectors
    monkeypatch.setattr(scorer, "vectors", lambda texts: embedded.extend(map(len, texts)) or vectors(texts))
    one, two, three, four = (np.arange(5, 5 + n, dtype=np.int32) for n in (2, 3, 4, 5))
    first = scorer.score([(one, two), (one, three)])
    np.testing.assert_array_equal(scorer.score([(one, two), (one, three)]), first)
    scorer.score([(one, four)])
    assert embedded == [2, 3, 4, 5]
    np.testing.assert_allclose(scorer.score([(one, two), (one, three)]), first, atol=2e-6)
    assert embedded[4:] == [2, 3, 4] and scorer.score([]).shape == (0,)


def test_long_texts_are_truncated_one_by_one(encoder):
    scorer = BiEncoderScorer.load(encoder, max_length=10)
    query, document = scorer.pair(np.arange(5, 30, dtype=np.int32), np.arange(5, 9, dtype=np.int32))
    assert len(query) == 8 and len(document) == 4 and scorer.truncated_queries == 1
    assert scorer.room(query) == 8
