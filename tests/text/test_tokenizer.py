"""The tokenizer against transformers', and what it says about vocabularies that are none."""

import json

import pytest

from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_tokenizer
from tests.support.scripts import compare_scripts
from tests.support.tiny_bert import small_tokenizer

TEXTS = [
    "The cat sat, dogs!",
    "rans\u00a0 unknown ÀÉ a",
    "",
    "  ",
    "red\tblue\u2028green",
    "a" * 300,
    "[SEP] the [MASK]",
]


def test_round_trip(tmp_path):
    tokenizer = small_tokenizer()
    tokenizer.save(str(tmp_path))
    for place in (tmp_path, tmp_path / "vocab.txt"):
        loaded = load_tokenizer(str(place))
        assert loaded == tokenizer
        assert loaded.sha256 == tokenizer.sha256
    (tmp_path / "SHA256SUMS").unlink()
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / name).rename(tmp_path / "elsewhere")
        assert load_tokenizer(str(tmp_path)) == tokenizer
        (tmp_path / "elsewhere").rename(tmp_path / name)


@pytest.mark.parametrize("lowercase", [True, False])
def test_same_ids_as_transformers(tmp_path, lowercase):
    import transformers

    tokenizer = Tokenizer.of_words(small_tokenizer().tokens, do_lower_case=lowercase)
    tokenizer.save(str(tmp_path))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert tokenizer.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert load_tokenizer(str(tmp_path)) == tokenizer
    assert tokenizer.sha256 != Tokenizer.of_words(tokenizer.tokens, do_lower_case=not lowercase).sha256


@pytest.mark.parametrize("options", [{"strip_accents": False}, {"tokenize_chinese_chars": False}])
def test_other_normalisers_are_those_of_transformers(tmp_path, options):
    import transformers

    tokens = (*SPECIAL_TOKENS, "cafe", "café", "世", "界", "世界")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"), **options).save_pretrained(tmp_path / "theirs")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ours = load_tokenizer(str(tmp_path / "theirs"))
    ours.save(str(tmp_path / "ours"))
    again = load_tokenizer(str(tmp_path / "ours"))
    assert again == ours and again.sha256 == ours.sha256 != load_tokenizer(str(tmp_path / "vocab.txt")).sha256
    for text in ("café", "世界 cafe"):
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text) == expected == again.encode(text)
        assert transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").encode(text)[1:-1] == expected


def test_batches_and_offsets():
    tokenizer = small_tokenizer()
    encodings = tokenizer.encode_batch(TEXTS)
    assert [encoding.ids for encoding in encodings] == [tokenizer.encode(text) for text in TEXTS]
    first = encodings[0]
    pieces = ["".join(TEXTS[0][start:end]) for start, end in first.offsets]
    assert pieces == ["The", "cat", "sat", ",", "dog", "s", "!"]


@pytest.mark.parametrize("limit", [1, 3, 7, 40, 1000])
def test_prefixes_are_the_first_ids(limit):
    tokenizer = small_tokenizer()
    texts = [*TEXTS, "cat dogs, " * 500, "x" * 5000 + " cat" * 50, "cat," * 900, " " * 4000 + "cat"]
    assert tokenizer.encode_prefixes(texts, limit) == [tokenizer.encode(text)[:limit] for text in texts]


def test_bad_vocabularies(tmp_path):
    vocab = tmp_path / "vocab.txt"
    for tokens, place, message in (
        ([t for t in SPECIAL_TOKENS if t != "[MASK]"], vocab, r"lacks \[MASK\]"),
        ([*SPECIAL_TOKENS, "cat", "cat"], vocab, "same token twice"),
        ([], tmp_path / "absent", "no tokenizer at"),
        ([], "", "no tokenizer at ''; set `tokenizer`"),
    ):
        vocab.write_text("\n".join(tokens))
        with pytest.raises(InputError, match=message):
            load_tokenizer(str(place))
    vocab.write_text("\n".join(SPECIAL_TOKENS))
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match="is not a JSON object"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    assert load_tokenizer(str(tmp_path)).max_length == 1 << 20


def changed(path, name: str, **changes) -> str:
    """A saved tokenizer of which a file says something else; without digests, as another tool would write it."""
    small_tokenizer().save(str(path))
    (path / "SHA256SUMS").unlink()
    parts = json.loads((path / name).read_text())
    for key, value in changes.items():
        node, *inner = key.split("__")
        if inner:
            parts[node][inner[0]] = value
        else:
            parts[node] = value
    (path / name).write_text(json.dumps(parts))
    return str(path)


ADDED = {"id": 46, "content": "[Q]", "special": True} | dict.fromkeys(
    ("single_word", "lstrip", "rstrip", "normalized"), False
)


TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"


@pytest.mark.parametrize(
    "name, changes, message",
    [
        # transformers' BertTokenizer takes the casing from tokenizer_config.json, whatever tokenizer.json says.
        (
            TOKENIZER,
            {"normalizer__lowercase": False},
            "the normalizer of tokenizer.json is not that of a BertTokenizer",
        ),
        (SETTINGS, {"do_lower_case": False}, "the normalizer of tokenizer.json is not that"),
        (SETTINGS, {"do_lower_case": "no"}, "must be true, false or null"),
        (TOKENIZER, {"pre_tokenizer": {"type": "Whitespace"}}, "the pre_tokenizer of tokenizer.json"),
        (TOKENIZER, {"model__continuing_subword_prefix": "@@"}, "the model of tokenizer.json"),
        (TOKENIZER, {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, "hold different vocabularies"),
        (SETTINGS, {"added_tokens_decoder": {"46": {"content": "[Q]"}}}, r"adds '\[Q\]' as 46"),
        (SETTINGS, {"cls_token": "[X]"}, r"its cls_token '\[X\]' is not in the vocabulary"),
    ],
)
def test_what_transformers_would_read_otherwise_is_refused(tmp_path, name, changes, message):
    with pytest.raises(InputError, match=message):
        load_tokenizer(changed(tmp_path, name, **changes))


def test_added_tokens_are_tokens(tmp_path):
    """They used to be taken for padding of the word embeddings."""
    import transformers

    added = json.loads(Tokenizer.of_words(small_tokenizer().tokens).definition)["added_tokens"]
    directory = changed(tmp_path, "tokenizer.json", added_tokens=[*added, ADDED])
    ours, theirs = load_tokenizer(directory), transformers.AutoTokenizer.from_pretrained(directory)
    assert ours.size == len(theirs) == 47 and 46 in ours.special
    assert ours.encode("[Q] the cat") == theirs.encode("[Q] the cat", add_special_tokens=False)
    (tmp_path / "added_tokens.json").write_text('{"[Q]": 46, "[D]": 47}')  # as older versions of transformers wrote
    with pytest.raises(InputError, match=r"adds '\[D\]' as 47, which is not in tokenizer\.json"):
        load_tokenizer(directory)


def test_truncation_and_padding_of_the_file_are_not_used(tmp_path):
    cut = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    pad = {
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    ours = load_tokenizer(changed(tmp_path, "tokenizer.json", truncation=cut, padding=pad))
    assert ours == small_tokenizer() and len(ours.encode("the cat sat in the mat")) == 6


@pytest.mark.parametrize("kind", ["modernbert", "roberta", "xlm-roberta"])
def test_ids_and_offsets_of_ten_scripts_are_those_of_transformers(kind, tmp_path):
    """tests/real/test_encoders_real.py compares 10,000 lines."""
    compare_scripts(kind, str(tmp_path), 300)
