import json
import shutil
from pathlib import Path

import pytest
import transformers

from harp_jax.base.errors import InputError
from harp_jax.base.files import write_sums
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import ROLES, SPECIAL_TOKENS, Tokenizer, load_tokenizer
from tests.support.tiny_bert import small_tokenizer
from tests.support.tokenizers import save_trained

TEXTS = ["The cat sat, dogs!", "rans\u00a0 unknown ÀÉ a", "", "  ", "red\tblue\u2028green"]
TEXTS += ["a" * 300, "[SEP] the [MASK]"]
ADDED = dict(id=46, content="[Q]", special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
TYPED = ["input_ids", "token_type_ids", "attention_mask"]
VOCAB = small_tokenizer().vocab
WORD = small_tokenizer().tokens[9]


def edit(path: Path, **changes: object) -> None:
    """Sets fields of a JSON file (PART__FIELD: of a part), or removes them (None); the file may not exist."""
    fields = json.loads(path.read_text()) if path.exists() else {}
    for name, value in changes.items():
        part, _, last = name.rpartition("__")
        (fields[part] if part else fields)[last] = value
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


def changed(path: Path, name: str, kind: str = "", **changes: object) -> str:
    """A saved tokenizer with one file changed and without digests, as if written by another tool; a trained one of a `kind`."""
    save_trained(kind, str(path), SENTENCES, 500) if kind else small_tokenizer().save(str(path))
    (path / "SHA256SUMS").unlink(missing_ok=True)
    edit(path / name, **changes)
    return str(path)


def test_round_trip(tmp_path):
    tokenizer = small_tokenizer()
    tokenizer.save(str(tmp_path))
    for place in (tmp_path, tmp_path / "vocab.txt"):
        loaded = load_tokenizer(str(place))
        assert loaded == tokenizer and loaded.sha256 == tokenizer.sha256
    assert tokenizer.sha256 != Tokenizer.of_words(tokenizer.tokens, do_lower_case=False).sha256
    # Earlier versions did not list the model's inputs, but their models were trained with token types.
    edit(tmp_path / SETTINGS, model_input_names=None)
    write_sums(str(tmp_path))
    assert load_tokenizer(str(tmp_path)).token_types
    (tmp_path / "SHA256SUMS").unlink()
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / name).rename(tmp_path / "elsewhere")
        assert load_tokenizer(str(tmp_path)) == tokenizer
        (tmp_path / "elsewhere").rename(tmp_path / name)


@pytest.mark.parametrize("limit", [1, 3, 7, 40, 1000])
def test_prefixes_are_the_first_ids(limit):
    tokenizer = small_tokenizer()
    texts = [*TEXTS, "cat dogs, " * 500, "x" * 5000 + " cat" * 50, "cat," * 900, " " * 4000 + "cat"]
    assert tokenizer.encode_prefixes(texts, limit) == [tokenizer.encode(text)[:limit] for text in texts]


def test_bad_vocabularies(tmp_path):
    vocab = tmp_path / "vocab.txt"
    twice = [*SPECIAL_TOKENS, "cat", "cat"]
    for tokens, message in ((SPECIAL_TOKENS[:-1], r"lacks \[MASK\]"), (twice, "same token twice")):
        vocab.write_text("\n".join(tokens))
        with pytest.raises(InputError, match=message):
            load_tokenizer(str(vocab))
    vocab.unlink()
    # transformers would make a tokenizer of five tokens.
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for place in (f"{tmp_path}/absent", str(tmp_path)):
        with pytest.raises(InputError, match=f"no tokenizer at '{place}'; set `tokenizer`"):
            load_tokenizer(place)


def check_as_transformers(directory: str, count: int = 30) -> None:
    """Ids, offsets, special tokens and token types are AutoTokenizer's, also after it was saved."""
    theirs, ours = transformers.AutoTokenizer.from_pretrained(directory), load_tokenizer(directory)
    shutil.rmtree(f"{directory}-again", ignore_errors=True)
    ours.save(f"{directory}-again")
    saved = transformers.AutoTokenizer.from_pretrained(f"{directory}-again")
    (Path(f"{directory}-again") / "SHA256SUMS").unlink()
    again = load_tokenizer(f"{directory}-again")
    assert ours.size == len(theirs) and (ours.sha256, ours.template) == (again.sha256, again.template)
    assert dict(ours.roles) == {role: token for role in ROLES if (token := getattr(theirs, f"{role}_token"))}
    documents = [*TEXTS, *lines_of_scripts(count), " ".join(theirs.all_special_tokens)]
    queries = documents[::-1]
    expected = theirs(queries, documents, return_offsets_mapping=True)
    assert expected == saved(queries, documents, return_offsets_mapping=True)
    words = theirs(documents, add_special_tokens=False, return_offsets_mapping=True)
    t, alone = ours.template, ours.encode_batch(documents)
    assert [(each.ids, each.offsets) for each in alone] == [*zip(words["input_ids"], words["offset_mapping"])]
    assert [[*t.start, *each.ids, *t.alone] for each in alone] == theirs(documents)["input_ids"]
    for i, (a, b) in enumerate(zip(alone[::-1], alone)):
        first, second = [*t.start, *a.ids, *t.between], [*b.ids, *t.end]
        types = [0] * len(first) + [t.second_type] * len(second)
        assert expected["input_ids"][i] == first + second
        assert expected.get("token_type_ids", {i: [0] * len(types)})[i] == types


@pytest.mark.parametrize(
    "kind, name, changes",
    [
        # transformers' BertTokenizer reads the vocabulary of tokenizer.json and the options of tokenizer_config.json.
        ("", TOKENIZER, {"normalizer__lowercase": False}),
        ("", SETTINGS, {"do_lower_case": False}),
        ("", SETTINGS, {"strip_accents": False, "tokenize_chinese_chars": False}),
        ("", SETTINGS, {"cls_token": "[SEP]", "sep_token": "[CLS]"}),
        ("", SETTINGS, {"additional_special_tokens": [WORD]}),  # a word of the vocabulary that is never split
        ("", SETTINGS, {"model_input_names": TYPED[::2]}),
        ("gemma", SETTINGS, {"model_input_names": TYPED}),
        ("roberta", SETTINGS, {"add_prefix_space": True, "trim_offsets": False}),
        ("xlm-roberta", SETTINGS, {"add_prefix_space": False}),
        ("", "special_tokens_map.json", {"mask_token": "[UNK]"}),
        ("", "added_tokens.json", {"[D]": 46}),  # as written by older transformers
        ("", TOKENIZER, {"added_tokens": [*json.loads(small_tokenizer().definition)["added_tokens"], ADDED]}),
        ("", TOKENIZER, {"truncation": dict(direction="Right", max_length=3, strategy="LongestFirst", stride=0)}),  # not used
        # transformers drops these normalisers.
        ("xlm-roberta", TOKENIZER, {"normalizer": {"type": "Lowercase"}}),
        ("roberta", TOKENIZER, {"normalizer": {"type": "NFC"}}),
    ],
)  # fmt: skip
def test_edited_files_are_read_as_by_transformers(tmp_path, kind, name, changes):
    check_as_transformers(changed(tmp_path / "edited", name, kind, **changes))


def test_what_a_model_here_cannot_use_is_refused(tmp_path):
    for number, (name, changes, message) in enumerate((
        (SETTINGS, {"truncation_side": "left"}, "truncation_side and padding_side in tokenizer_config.json must be 'right'"),
        (SETTINGS, {"model_max_length": 4}, "model_max_length in tokenizer_config.json is 4, but a pair needs 8 tokens"),
        (SETTINGS, {"split_special_tokens": True}, "split_special_tokens is not supported"),
        (SETTINGS, {"auto_map": {"AutoTokenizer": ["code.X", None]}}, "needs custom code .auto_map., which is not executed here"),
        (TOKENIZER, {"kind": "modernbert", "model__dropout": 0.5}, "dropout of its model in tokenizer.json makes ids random"),
        (TOKENIZER, {"model__vocab": {**VOCAB, "another": 99}}, "the ids of its 47 tokens are not 0 to 46"),
    )):  # fmt: skip
        with pytest.raises(InputError, match=message):
            load_tokenizer(changed(tmp_path / str(number), name, **changes))


@pytest.mark.parametrize("config", ["", '{"model_type": "bert"}'])
@pytest.mark.parametrize("kind", ["xlm-roberta-nfkc", "gemma"])
def test_unigram_and_byte_fallback_without_a_class_have_the_ids_of_tokenizer_json(tmp_path, monkeypatch, kind, config):
    """transformers 5 would make WordPiece of a vocabulary next to a BERT's config.json, in which nearly all words are unknown. The
    copy that is kept for the next processes is read without transformers."""
    path = save_trained(kind, str(tmp_path), SENTENCES, 500)
    edit(tmp_path / SETTINGS, tokenizer_class=None)
    if config:
        (tmp_path / "config.json").write_text(config)
    ours, texts = load_tokenizer(path), [*TEXTS, *lines_of_scripts(60)]
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / TOKENIZER))
    assert [each.ids for each in ours.encode_batch(texts)] == theirs(texts, add_special_tokens=False)["input_ids"]
    monkeypatch.setattr("harp_jax.text.tokenizer.read_tokenizer", None)
    assert load_tokenizer(path) == ours


# Lines in ten scripts: sentences, and random words of each script's letters with digits, marks and spaces.
SENTENCES = (
    "The cat sat on the mat; it's 3.14 o'clock, isn't it?", "Die Übergröße kostet 5 € – naïve façades!",
    "Кошка сидит на коврике, а собака спит.", "Η γάτα κάθεται στο χαλί.", "القطة تجلس على السجادة، أليس كذلك؟",
    "החתול יושב על המחצלת.", "बिल्ली चटाई पर बैठी है।", "แมวนั่งอยู่บนเสื่อ",
    "猫坐在垫子上。猫が座っている、と思う。", "고양이가 매트 위에 앉아 있다.",
    "კატა ხალიჩაზე ზის.", "ﬁne ① ｆｕｌｌ　ｗｉｄｔｈ ½ \u00a0 e\u0301 👩‍🚀 \t tab",
)  # fmt: skip
# Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Georgian, Hangul, Han, Kana.
LETTERS = (
    (0x61, 0x24F), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA), (0x621, 0x64A), (0x905, 0x94D), (0xE01, 0xE4D),
    (0x10D0, 0x10F0), (0xAC00, 0xD7A3), (0x4E00, 0x9FA5), (0x3041, 0x30FE),
)  # fmt: skip
BETWEEN = (" ", "  ", ", ", ". ", "-", "7", "\u00a0", "\n", "é")


def lines_of_scripts(count: int) -> list[str]:
    """`count` lines; the sentences come first."""
    lines = list(SENTENCES)
    for number in range(len(lines), count):
        rng = generator("scripts", number)
        low, high = LETTERS[number % len(LETTERS)]
        words = ["".join(map(chr, rng.integers(low, high + 1, rng.integers(1, 9)))) for _ in range(rng.integers(1, 12))]
        lines.append("".join(word + BETWEEN[rng.integers(len(BETWEEN))] for word in words))
    return lines


UNSEEN, MIXED = ["unseen ガイドをみる แมวนั่ง", *"unseen"], ["the caf - 都市 हिन्दी"] * 9


@pytest.mark.parametrize(
    "kind, size, trained_on, text, words",
    [
        ("bert", 70, UNSEEN, "nesne ガイドをみる แมวนั่ง", ["nesne", "カイトをみる", "แมวนง"]),
        ("xlm-roberta", 70, UNSEEN, "nesne ガイドをみる แมวนั่ง", ["nesne", *"ガイドをみるแมวนั่ง"]),
        ("modernbert", 290, MIXED, "the café שלום - 東京都市 हिन्दी", ["the", "café", "שלום", "-", "東", "京", "都市", "हिन्दी"]),
        ("gemma", 300, MIXED, "the café שלום - 東京都市 हिन्दी", ["the", "café", "שלום", "-", *"東京都市", "हिन्दी"]),
    ],
)  # fmt: skip
def test_which_tokens_are_a_word(kind, size, trained_on, text, words, tmp_path):
    """For whole-word masking: in scripts without spaces every token is one; bytes of a letter belong to its word."""
    made = load_tokenizer(save_trained(kind, str(tmp_path), trained_on, size))
    grouped: list[list[int]] = []
    for token in made.encode(text):
        if grouped and made.continues[token]:
            grouped[-1].append(token)
        else:
            grouped.append([token])
    assert [word for each in grouped if (word := made.decode(each).strip())] == words


KINDS = ("bert", "bert-cased", "modernbert", "roberta", "xlm-roberta", "xlm-roberta-nfkc", "gemma")


@pytest.mark.parametrize(
    "kind, count",
    [
        *((kind, 100) for kind in KINDS),
        *(pytest.param(kind, 10_000, marks=pytest.mark.real) for kind in (*KINDS, "xlm-roberta-nmt")),
    ],
)
def test_every_kind_of_tokenizer_next_to_every_model(kind, count, tmp_path):
    path = Path(save_trained(kind, str(tmp_path / "ours"), lines_of_scripts(100), 4000))
    (path / "SHA256SUMS").unlink(missing_ok=True)
    for model_type in ("bert", "roberta", "modernbert") if count == 100 else ("bert",):
        (path / "config.json").write_text(json.dumps({"model_type": model_type}))
        check_as_transformers(str(path), count)
