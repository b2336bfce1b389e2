import pytest

from data_pipeline.output.vocabulary import train, train_unigram
from data_pipeline.text.terms import load_terms
from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import SPECIAL_TOKENS, load_tokenizer
from tests.support.commands import command

TEXTS = ["The harbour of Ondel", "harbours and ferries of Ondel", "ferries leave the harbour"] * 3


def test_the_same_text_gives_the_same_sorted_vocabulary_without_accents_in_english_alone():
    tokens = train(lambda: TEXTS, 60).tokens
    assert tokens == train(lambda: iter(TEXTS), 60).tokens
    assert list(tokens) == [*SPECIAL_TOKENS, *sorted(tokens[len(SPECIAL_TOKENS) :])]
    assert {"h", "##r", "harbour"} <= set(tokens) and len(tokens) <= 60
    with pytest.raises(InputError, match="10 tokens"):
        train(lambda: TEXTS, 10)
    for tag, distinct in (("de-AT", 2), ("en", 1)):
        made = train(lambda: ["schön ist es schon"] * 3, 60, tag)
        assert len({tuple(made.encode(word)) for word in ("schön", "schon")}) == distinct


def test_unigram_finds_words_without_spaces(tmp_path):
    texts = ["東京は日本の首都です。", "日本の首都は東京。", "Linux カーネルを設定する", "カーネルの設定"] * 20
    train_unigram(texts, 60).save(str(tmp_path / "out"))
    made = load_tokenizer(str(tmp_path / "out"))
    text = "首都カーネル東京 LINUX"
    assert made.decode(made.encode(text)) == text.lower() and made.size <= 60
    ((span, starts, ends),) = load_terms(str(tmp_path / "out"), "", language="ja").split([text], 510)
    assert span.words == [text[a:b].strip().lower() for a, b in zip(starts, ends)] and len(span.words) > 2
    with pytest.raises(InputError, match=r"8 tokens: .*not large enough"):
        train_unigram(texts, 8)
    longest = {tag: max(map(len, train_unigram(texts, 90, tag).tokens[5:])) for tag in ("en", "zh-TW")}
    assert longest["zh-TW"] <= 4 < longest["en"]


JAPANESE = [
    "ガイドブックの使い方を説明する。まず、表紙を開いてください。",
    "港の近くにある市場では、朝早くから魚が売られている。",
    "パソコンのバックアップは、週に一度とるのがよい。",
    "山々の上に雪が残り、谷では桜が咲いている。",
    "「ぺんぎん」は飛べない鳥で、泳ぎが得意だ。",
    "駅から博物館まで、バスで約十五分かかります。",
    "プログラムを実行する前に、設定ファイルを確認する。",
    "祖母は毎晩、囲炉裏のそばで昔話をしてくれた。",
    "ヴァイオリンの弦を張り替える時期は、演奏の頻度による。",
    "図書館のデータベースで、著者名から本を検索できる。",
]


@pytest.mark.parametrize("tag", ["en", "ja"])
def test_letters_that_no_piece_needs_have_the_same_scores_each_time(tag):
    assert len({train_unigram(JAPANESE * 8, 200, tag).definition for _ in range(3)}) == 1


@pytest.mark.parametrize("kind", ["auto", "wordpiece"])
def test_japanese_pages_keep_their_characters_and_marks(kind, tmp_path, capsys):
    for number, text in enumerate(JAPANESE):
        page = f"<!doctype html><html lang=ja><title>{number}</title><body><p>{text * 8}</p></body></html>"
        (tmp_path / f"{number}.html").write_text(page)
    paths = {"config": "data/html", "config.source.paths": (f"{tmp_path}/*.html",), "output": tmp_path / "made"}
    command("vocabulary", kind=kind, size=2000, **paths)
    said = "unigram" if kind == "auto" else kind
    assert f"vocabulary: {said}, language ja (by <html lang>" in capsys.readouterr().out
    made = load_tokenizer(str(tmp_path / "made"))
    for text in JAPANESE:
        ids = made.encode(text)
        assert made.unk not in ids and "".join(made.decode(ids).split()) == "".join(made.normalise(text).split())
    assert made.encode("は") != made.encode("ば") != made.encode("ぱ")


@pytest.mark.parametrize(("tag", "first"), [("zh", 0x4E00), ("ko", 0xAC00)])
def test_languages_of_many_characters_keep_them(tag, first):
    letters = "".join(map(chr, range(first, first + 1500)))
    texts = [letters[start : start + 3] for start in range(0, 1500, 3)]
    known = train(lambda: texts, 4000, tag)
    assert not any(known.unk in known.encode(text) for text in texts)
    few = train_unigram(texts, 1600)  # has the 1,200 most frequent letters
    assert few.size <= 1600 and [few.encode(text) for text in letters].count([few.vocab["▁"], few.unk]) == 300
