import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from harp_jax.base.errors import InputError
from harp_jax.base.files import write_sums
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import ROLES, SPECIAL_TOKENS, Tokenizer, load_tokenizer
from tests.support.commands import python
from tests.support.tiny_bert import small_tokenizer
from tests.support.tokenizers import save_trained

TEXTS = ["The cat sat, dogs!", "rans\u00a0 unknown ÀÉ a", "", "  ", "red\tblue\u2028green"]
TEXTS += ["a" * 300, "[SEP] the [MASK]"]


def test_round_trip(tmp_path):
    tokenizer = small_tokenizer()
    tokenizer.save(str(tmp_path))
    for place in (tmp_path, tmp_path / "vocab.txt"):
        loaded = load_tokenizer(str(place))
        assert loaded == tokenizer and loaded.sha256 == tokenizer.sha256
    assert tokenizer.sha256 != Tokenizer.of_words(tokenizer.tokens, do_lower_case=False).sha256
    (tmp_path / "SHA256SUMS").unlink()
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / name).rename(tmp_path / "elsewhere")
        assert load_tokenizer(str(tmp_path)) == tokenizer
        (tmp_path / "elsewhere").rename(tmp_path / name)


def test_a_directory_of_an_earlier_version_keeps_its_token_types(tmp_path):
    """It does not list the model's inputs, so that transformers would pass no types; the model was trained with them."""
    made = replace(load_tokenizer(save_trained("gemma", str(tmp_path / "trained"), SENTENCES, 500)), token_types=True)
    made.save(str(tmp_path / "ours"))
    settings = json.loads((tmp_path / "ours" / SETTINGS).read_text())
    del settings["model_input_names"]
    (tmp_path / "ours" / SETTINGS).write_text(json.dumps(settings))
    write_sums(str(tmp_path / "ours"))
    assert load_tokenizer(str(tmp_path / "ours")) == made
    (tmp_path / "ours" / "SHA256SUMS").unlink()
    assert not load_tokenizer(str(tmp_path / "ours")).token_types


@pytest.mark.parametrize("limit", [1, 3, 7, 40, 1000])
def test_prefixes_are_the_first_ids(limit):
    tokenizer = small_tokenizer()
    texts = [*TEXTS, "cat dogs, " * 500, "x" * 5000 + " cat" * 50, "cat," * 900, " " * 4000 + "cat"]
    assert tokenizer.encode_prefixes(texts, limit) == [tokenizer.encode(text)[:limit] for text in texts]


def test_bad_vocabularies(tmp_path):
    vocab = tmp_path / "vocab.txt"
    few = [token for token in SPECIAL_TOKENS if token != "[MASK]"]
    for tokens, message in ((few, r"lacks \[MASK\]"), ([*SPECIAL_TOKENS, "cat", "cat"], "same token twice")):
        vocab.write_text("\n".join(tokens))
        with pytest.raises(InputError, match=message):
            load_tokenizer(str(vocab))
    vocab.unlink()
    # transformers would make a tokenizer of five tokens.
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for place in (f"{tmp_path}/absent", str(tmp_path)):
        with pytest.raises(InputError, match=f"no tokenizer at '{place}'; set `tokenizer`"):
            load_tokenizer(place)


def changed(path, name: str, **changes) -> str:
    """A saved tokenizer with one file changed and without digests, as if written by another tool."""
    small_tokenizer().save(str(path))
    (path / "SHA256SUMS").unlink()
    parts = json.loads((path / name).read_text()) if (path / name).exists() else {}
    for key, value in changes.items():
        node, _, last = key.rpartition("__")
        (parts[node] if node else parts)[last] = value
    (path / name).write_text(json.dumps(parts))
    return str(path)


ADDED = dict(id=46, content="[Q]", special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
VOCAB = small_tokenizer().vocab
WORD = small_tokenizer().tokens[9]


def check_as_transformers(directory: str, count: int = 30) -> Tokenizer:
    """Ids, offsets, special tokens and token types are AutoTokenizer's, also after it was saved; returns the tokenizer."""
    theirs, ours = transformers.AutoTokenizer.from_pretrained(directory), load_tokenizer(directory)
    shutil.rmtree(f"{directory}-again", ignore_errors=True)
    ours.save(f"{directory}-again")
    saved = transformers.AutoTokenizer.from_pretrained(f"{directory}-again")
    (Path(f"{directory}-again") / "SHA256SUMS").unlink()
    again = load_tokenizer(f"{directory}-again")
    assert ours.size == len(theirs) and ours.sha256 == again.sha256
    assert dict(ours.roles) == {role: token for role in ROLES if (token := getattr(theirs, f"{role}_token"))}
    documents = [*TEXTS, *lines_of_scripts(count), " ".join(theirs.all_special_tokens)]
    queries = documents[::-1]
    expected = theirs(queries, documents, return_offsets_mapping=True)
    assert expected == saved(queries, documents, return_offsets_mapping=True)
    words = theirs(documents, add_special_tokens=False, return_offsets_mapping=True)
    for tokenizer in (ours, again):
        t, alone = tokenizer.template, tokenizer.encode_batch(documents)
        assert [(each.ids, each.offsets) for each in alone] == [*zip(words["input_ids"], words["offset_mapping"])]
        assert [[*t.start, *each.ids, *t.alone] for each in alone] == theirs(documents)["input_ids"]
        for i, (a, b) in enumerate(zip(alone[::-1], alone)):
            first, second = [*t.start, *a.ids, *t.between], [*b.ids, *t.end]
            types = [0] * len(first) + [t.second_type] * len(second)
            assert expected["input_ids"][i] == first + second
            assert expected.get("token_type_ids", {i: [0] * len(types)})[i] == types
    return ours


@pytest.mark.parametrize(
    "name, changes",
    [
        # transformers' BertTokenizer reads the vocabulary of tokenizer.json and the options of tokenizer_config.json.
        (TOKENIZER, {"normalizer__lowercase": False}),
        (SETTINGS, {"do_lower_case": False}),
        (SETTINGS, {"cls_token": "[SEP]", "sep_token": "[CLS]"}),
        (SETTINGS, {"model_input_names": ["input_ids", "attention_mask"]}),
        # A word of the vocabulary that is never split.
        (SETTINGS, {"additional_special_tokens": [WORD]}),
        (SETTINGS, {"cls_token": "[X]"}),
        ("special_tokens_map.json", {"mask_token": "[UNK]"}),
        ("added_tokens.json", {"[D]": 46}),  # as written by older transformers
        (TOKENIZER, {"added_tokens": [*json.loads(small_tokenizer().definition)["added_tokens"], ADDED]}),
    ],
)
def test_edited_files_are_read_as_by_transformers(tmp_path, name, changes):
    check_as_transformers(changed(tmp_path / "bert", name, **changes))


@pytest.mark.parametrize("kind, part", [("xlm-roberta", "Lowercase"), ("roberta", "NFC")])
def test_a_normaliser_that_transformers_drops_is_dropped(tmp_path, kind, part):
    path = Path(save_trained(kind, str(tmp_path / kind), SENTENCES, 500), TOKENIZER)
    path.write_text(json.dumps({**json.loads(path.read_text()), "normalizer": {"type": part}}))
    assert check_as_transformers(str(path.parent)).normalise("E\u0301") == "E\u0301"


@pytest.mark.parametrize(
    "name, changes, message",
    [
        (SETTINGS, {"added_tokens_decoder": ["[Q]"]}, "transformers cannot read .*list"),
        (SETTINGS, {"truncation_side": "left"}, "truncation_side and padding_side in tokenizer_config.json must be 'right'"),
        (SETTINGS, {"model_max_length": 4}, "model_max_length in tokenizer_config.json is 4, but a pair needs 8 tokens"),
        (SETTINGS, {"split_special_tokens": True}, "split_special_tokens is not supported"),
        (SETTINGS, {"auto_map": {"AutoTokenizer": ["code.X", None]}}, "needs custom code .auto_map., which is not executed here"),
        (SETTINGS, {"tokenizer_class": "BertJapaneseTokenizer"}, "transformers cannot read|no fast version"),
        (TOKENIZER, {"model__vocab": {**VOCAB, "another": 99}}, "the ids of its 47 tokens are not 0 to 46"),
    ],
)  # fmt: skip
def test_what_a_model_here_cannot_use_is_refused(tmp_path, name, changes, message):
    with pytest.raises(InputError, match=message) as found:
        load_tokenizer(changed(tmp_path, name, **changes))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("config", ["", '{"model_type": "bert"}'])
@pytest.mark.parametrize("kind", ["xlm-roberta-nfkc", "gemma"])
def test_unigram_and_byte_fallback_without_a_class_have_the_ids_of_tokenizer_json(tmp_path, kind, config):
    """transformers 5 would make WordPiece of a vocabulary next to a BERT's config.json, in which nearly all words are unknown."""
    path = Path(save_trained(kind, str(tmp_path), SENTENCES, 500))
    settings = json.loads((path / SETTINGS).read_text())
    (path / SETTINGS).write_text(json.dumps({**settings, "tokenizer_class": None}))
    if config:
        (path / "config.json").write_text(config)
    ours, texts = load_tokenizer(str(path)), [*TEXTS, *lines_of_scripts(60)]
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path / TOKENIZER))
    assert [each.ids for each in ours.encode_batch(texts)] == theirs(texts, add_special_tokens=False)["input_ids"]


def test_the_truncation_of_the_file_is_not_used(tmp_path):
    cut = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    ours = load_tokenizer(changed(tmp_path, TOKENIZER, truncation=cut))
    assert ours == small_tokenizer() and len(ours.encode("the cat sat in the mat")) == 6


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


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_a_sentence_without_spaces_is_more_than_one_word(kind, tmp_path):
    """For whole-word masking: Latin pieces continue a word, Japanese and Thai pieces are words by themselves."""
    made = load_tokenizer(save_trained(kind, str(tmp_path), ["unseen ガイドをみる แมวนั่ง", *"unseen"], 70))
    latin, others = ([bool(made.continues[i]) for i in made.encode(text)] for text in ("nesne", "ガイドをみる แมวนั่ง"))
    assert any(latin) and not any(others)


@pytest.mark.parametrize(
    "kind, size, japanese", [("modernbert", 290, ["東", "京", "都市"]), ("gemma", 300, list("東京都市"))]
)
def test_bytes_continue_words(kind, size, japanese, tmp_path):
    """For whole-word masking: letters that are several byte tokens continue words; Japanese letters are words by themselves."""
    made = load_tokenizer(save_trained(kind, str(tmp_path), ["the caf - 都市 हिन्दी"] * 9, size))
    words: list[list[int]] = []
    for token in made.encode("the café שלום - 東京都市 हिन्दी"):
        if words and made.continues[token]:
            words[-1].append(token)
        else:
            words.append([token])
    found = [made.decode(word).strip() for word in words]
    assert [each for each in found if each] == ["the", "café", "שלום", "-", *japanese, "हिन्दी"]


LOADED = """
import socket, sys
socket.socket.connect = socket.getaddrinfo = None  # a connection would be a TypeError
from harp_jax.text.tokenizer import load_tokenizer
print(load_tokenizer(sys.argv[1]).encode("the cat"), "transformers" in sys.modules)
"""


def test_the_next_process_loads_it_without_transformers_or_network(tmp_path):
    path = save_trained("roberta", str(tmp_path), SENTENCES, 300)
    ids = load_tokenizer(path).encode("the cat")
    assert python("-c", LOADED, path).stdout == f"{ids} False\n"


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


TYPED = ["input_ids", "token_type_ids", "attention_mask"]


@pytest.mark.parametrize(
    "kind, options",
    [
        ("bert", {"model_input_names": TYPED[::2], "strip_accents": False}),
        ("bert", {"tokenize_chinese_chars": False}),
        ("roberta", {"add_prefix_space": True, "trim_offsets": False}),
        ("xlm-roberta", {"add_prefix_space": False}),
        ("gemma", {"model_input_names": TYPED}),
    ],
)
def test_what_the_classes_of_transformers_save(kind, options, tmp_path):
    path = save_trained(kind, str(tmp_path / "trained"), SENTENCES, 500)
    transformers.AutoTokenizer.from_pretrained(path, **options).save_pretrained(tmp_path / "theirs")
    ours = check_as_transformers(str(tmp_path / "theirs"))
    assert ours.token_types == ("token_type_ids" in options.get("model_input_names", TYPED if kind == "bert" else ()))
