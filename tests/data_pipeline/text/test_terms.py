import pytest

from data_pipeline.text.terms import STOPWORDS, Terms, count_words, normalise_anchor, read_stopwords
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_tokenizer
from tests.support.tokenizers import save_trained


def test_words_are_units_between_spaces_and_punctuation():
    tokens = ("the", "river", "run", "##s", "##ning", "don", "t", "'", ".", ",", "-", "é", "c", "##a", "##fe", "12")
    terms = Terms(Tokenizer.of_words((*SPECIAL_TOKENS, *tokens)), STOPWORDS)
    text = "The café-river runs,  running. Xyzzy 12"
    (span, starts, ends), (empty, _, _) = terms.split([text, "  "], 510)
    assert span.words == ["the", "cafe", "-", "river", "runs", ",", "running", ".", "xyzzy", "12"] and not empty.words
    assert [text[s:e].lower().replace("é", "e") for s, e in zip(starts, ends)] == span.words
    ((pieces, starts, _),) = Terms(terms.tokenizer, STOPWORDS, "tokens").split([text], 510)
    assert pieces.tokens.tolist() == span.tokens.tolist() == terms.ids(span.words) and len(starts) == len(pieces.tokens)
    ((span, _, _),) = terms.split(["the river don't xyzzy running , 12 - ."], 510)
    assert [word for word in span.words if terms.is_term(word)] == ["river", "running", "12"]
    assert [word for word in span.words if not terms.has_content(word)] == ["'", ",", "-", "."]


def test_stopword_lists_and_anchor_texts(tmp_path):
    (tmp_path / "list").write_text("# a comment\nRiver\n\n12\n")
    assert read_stopwords(str(tmp_path / "list")) == {"river", "12"}
    inquery = read_stopwords("inquery")
    assert len(inquery) == 418 and {"thy", "nowadays"} < inquery - STOPWORDS and "redistribution" not in inquery
    assert {"und", "für"} < read_stopwords("", "de-AT") and read_stopwords("", "en") == STOPWORDS
    assert normalise_anchor("  The\u00a0 ＲＩＶＥＲ  Straße ") == "the river straße"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("two words", 2), ("", 0), (" zwei\u00a0Wörter ", 2), ("대한민국의 수도", 2), ("東京、日本", 2),
        ("Python 3.8，是一种语言。", 5), ("\u3000北\u3000", 1), ("กรุงเทพมหานคร", 3), ("𠀀𠀁", 1),
    ],
)  # fmt: skip
def test_words_are_counted_where_no_spaces_stand_between_them(text, words):
    """In Chinese, two characters count as one word; punctuation does not count."""
    assert count_words(text) == words


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "xlm-roberta-nfkc", "gemma"])
def test_words_are_those_of_the_text_whatever_the_tokenizer(kind, tmp_path):
    """Also if it does not split a line into words, if a letter without a token is several bytes, and if its normaliser turns one
    character into several letters, which are one word."""
    text = "The river-cat runs, 東木は 12 on."
    words = places = ["The", "river", "-", "cat", "runs", ",", "東", "木", "は", "12", "on", "."]
    line = text if "xlm" in kind else text.replace("東木は", "")
    lines = ["the river - cat runs , on 1 2 . ( ) 株 式 会 社 f i n e T", line]
    made = load_tokenizer(save_trained(kind, str(tmp_path), lines * 9, 150))
    if kind == "xlm-roberta-nfkc":
        words, places = [*words, "fine", "12", "株式会社", "(株)"], [*words, "ﬁne", "①２", "㍿", "㈱"]
        text += " ﬁne  ①２ ㍿ ㈱"
    if kind == "bert":
        words = [word.lower() for word in words]
    if kind == "gemma":
        text = text.replace("r-c", "r-  c").replace("12 on", "12\u00a0on")  # two spaces, one that its normaliser keeps
    terms = Terms(made, STOPWORDS, language="ja")
    ((span, starts, ends),) = terms.split([text], 510)
    assert span.words == words and [text[a:b].strip() for a, b in zip(starts, ends)] == places
    assert sum(span.lengths) == len(span.tokens) == len(made.encode(text))
    assert terms.ids(["river", "cat"]) == made.encode("river cat")
    assert [word for word in span.words[:6] if terms.is_term(word)] == ["river", "cat", "runs"]
    assert [word for word in ("The", *",-.") if terms.has_content(word)] == ["The"]
    ((first, _, _),) = terms.split([text], int(sum(span.lengths[:3])))
    assert first.words == words[:3]  # only whole words fit the window
