import numpy as np
import pytest

from data_pipeline.text.terms import STOPWORDS, Terms, count_words, join, load_terms, normalise_anchor, read_stopwords
from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.text.wordpiece import SPECIAL_TOKENS

TOKENS = (
    *SPECIAL_TOKENS,
    "the",
    "river",
    "run",
    "##s",
    "##ning",
    "don",
    "t",
    "'",
    ".",
    ",",
    "-",
    "é",
    "c",
    "##a",
    "##fe",
    "12",
)


@pytest.fixture
def terms():
    return Terms(Tokenizer.of_words(TOKENS), STOPWORDS)


def spelled(terms, words):
    return ["".join(terms.tokenizer.tokens[piece].replace("##", "") for piece in word) for word in words]


def test_words_are_units_between_spaces_and_punctuation(terms):
    text = "The café-river runs,  running. Xyzzy 12"
    ((span, starts, ends),) = terms.split([text], 510)
    expected = ["the", "cafe", "-", "river", "runs", ",", "running", ".", "[UNK]", "12"]
    assert spelled(terms, span.words()) == expected
    assert [text[s:e].lower().replace("é", "e") for s, e in zip(starts, ends)] == [*expected[:8], "xyzzy", "12"]
    assert join(span.words()) == span.tokens.tolist()


def test_terms_are_neither_stopwords_nor_punctuation_nor_unknown(terms):
    ((span, _, _),) = terms.split(["the river don't xyzzy running , 12 - ."], 510)
    kept = [word for word in span.words() if terms.is_term(word)]
    assert spelled(terms, kept) == ["river", "running", "12"]
    assert [terms.has_content(word) for word in span.words()] == [
        True,
        True,
        True,
        False,
        True,
        True,
        True,
        False,
        True,
        False,
        False,
    ]


def test_only_whole_words_fit_the_window(terms):
    ((span, starts, ends),) = terms.split(["river runs running"], 4)
    assert spelled(terms, span.words()) == ["river", "runs"]
    assert len(starts) == len(ends) == len(span.lengths) == 2 and span.tokens.dtype == np.int32


def test_empty_text(terms):
    ((span, starts, ends),) = terms.split(["  "], 510)
    assert span.words() == [] and len(starts) == len(ends) == 0


def test_anchor_texts_are_one_when_they_read_the_same():
    assert normalise_anchor("  The\u00a0 ＲＩＶＥＲ  Straße ") == "the river strasse"


def test_stopword_lists(tmp_path, terms):
    assert {"the", "of", "is"} <= STOPWORDS and "river" not in STOPWORDS
    (tmp_path / "list").write_text("River\n\n12\n")
    assert read_stopwords(str(tmp_path / "list")) == {"river", "12"}
    with pytest.raises(InputError, match="absent"):
        read_stopwords(str(tmp_path / "absent"))
    with pytest.raises(InputError, match="absent"):
        load_terms(str(tmp_path / "absent"), "")
    other = Terms(terms.tokenizer, frozenset({"river"}))
    ((span, _, _),) = other.split(["the river"], 510)
    assert [other.is_term(word) for word in span.words()] == [True, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("two words", 2), ("", 0), (" zwei\u00a0Wörter ", 2), ("Санкт-Петербург это город", 3), ("대한민국의 수도", 2),
        ("北京市是中华人民共和国的首都。", 7), ("東京、日本", 2), ("Python 3.8，是一种语言。", 5), ("\u3000北\u3000", 1),
        ("กรุงเทพมหานคร", 3), ("𠀀𠀁", 1),
    ],
)  # fmt: skip
def test_words_are_counted_where_no_spaces_stand_between_them(text, words):
    """Chinese by two characters a word; punctuation is no word."""
    assert count_words(text) == words
