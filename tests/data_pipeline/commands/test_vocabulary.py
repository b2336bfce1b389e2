"""Vocabulary training: the same text gives the same ids; sizes that cannot hold the characters are refused."""

import pytest

from data_pipeline.commands.vocabulary import train
from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import SPECIAL_TOKENS

TEXTS = ["The harbour of Ondel", "harbours and ferries of Ondel", "ferries leave the harbour"] * 3


def test_the_same_text_gives_the_same_sorted_vocabulary():
    tokens = train(lambda: TEXTS, 60).tokens
    assert tokens == train(lambda: iter(TEXTS), 60).tokens
    assert tokens[: len(SPECIAL_TOKENS)] == tuple(SPECIAL_TOKENS)
    assert list(tokens[len(SPECIAL_TOKENS) :]) == sorted(tokens[len(SPECIAL_TOKENS) :])
    assert {"h", "##r", "harbour"} <= set(tokens) and len(tokens) <= 60


@pytest.mark.parametrize(("texts", "size", "message"), [(TEXTS, 10, "10 tokens"), ([], 60, "no text")])
def test_what_cannot_be_trained_is_refused(texts, size, message):
    with pytest.raises(InputError, match=message):
        train(lambda: texts, size)
