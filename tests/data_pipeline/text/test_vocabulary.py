"""Vocabulary training: the same text gives the same ids; sizes that cannot hold the characters are refused."""

import pytest

from data_pipeline.commands.vocabulary import arguments_parser, main
from data_pipeline.text.vocabulary import train
from harp_jax.base.errors import InputError
from harp_jax.text.wordpiece import SPECIAL_TOKENS

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


def test_the_vocabulary_of_a_model_is_not_replaced(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    arguments = arguments_parser().parse_args(["--config=data/html", f"--output={tmp_path}"])
    with pytest.raises(InputError, match="holds a model"):
        main(arguments)
