"""Vocabulary training: the same text gives the same ids; sizes that cannot hold the characters are refused."""

import pytest

from data_pipeline.commands.vocabulary import train, train_unigram
from data_pipeline.text.terms import load_terms
from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import SPECIAL_TOKENS, load_tokenizer

TEXTS = ["The harbour of Ondel", "harbours and ferries of Ondel", "ferries leave the harbour"] * 3


def test_the_same_text_gives_the_same_sorted_vocabulary():
    tokens = train(lambda: TEXTS, 60).tokens
    assert tokens == train(lambda: iter(TEXTS), 60).tokens
    assert tokens[: len(SPECIAL_TOKENS)] == tuple(SPECIAL_TOKENS)
    assert list(tokens[len(SPECIAL_TOKENS) :]) == sorted(tokens[len(SPECIAL_TOKENS) :])
    assert {"h", "##r", "harbour"} <= set(tokens) and len(tokens) <= 60


def test_unigram_finds_words_without_spaces(tmp_path):
    texts = ["東京は日本の首都です。", "日本の首都は東京。", "Linux カーネルを設定する", "カーネルの設定"] * 20
    made = train_unigram(texts, 60)
    assert made.definition == train_unigram(iter(texts), 60).definition and made.size <= 60
    made.save(str(tmp_path / "out"))
    loaded = load_tokenizer(str(tmp_path / "out"))
    text, template = "首都カーネル東京 LINUX", loaded.template
    assert loaded.decode(loaded.encode(text)) == text.lower()
    around = (*template.start, *template.between, *template.end)
    assert [loaded.tokens[i] for i in around] == ["<s>", "</s>", "</s>"] and template.second_type == 1
    ((span, starts, ends),) = load_terms(str(tmp_path / "out"), "", language="ja").split([text], 510)
    assert span.words == [text[a:b].strip().lower() for a, b in zip(starts, ends)] and len(span.words) > 2
    for size, given in ((8, texts), (60, [])):
        with pytest.raises(InputError, match=r"8 tokens: .*not large enough|no text"):
            train_unigram(given, size)


@pytest.mark.parametrize(("texts", "size", "message"), [(TEXTS, 10, "10 tokens"), ([], 60, "no text")])
def test_what_cannot_be_trained_is_refused(texts, size, message):
    with pytest.raises(InputError, match=message):
        train(lambda: texts, size)
