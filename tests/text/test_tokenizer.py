"""The tokenizer against transformers', and what it says about vocabularies that are none."""

import json

import pytest

from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_tokenizer
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
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "SHA256SUMS").unlink()
    assert load_tokenizer(str(tmp_path)) == tokenizer


@pytest.mark.parametrize("lowercase", [True, False])
def test_same_ids_as_transformers(tmp_path, lowercase):
    import transformers

    tokenizer = Tokenizer(small_tokenizer().tokens, lowercase=lowercase)
    tokenizer.save(str(tmp_path))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert tokenizer.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert load_tokenizer(str(tmp_path)).lowercase == lowercase
    assert tokenizer.sha256 != Tokenizer(tokenizer.tokens, lowercase=not lowercase).sha256


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
    vocab.write_text("\n".join(t for t in SPECIAL_TOKENS if t != "[MASK]"))
    with pytest.raises(InputError, match=r"lacks \[MASK\]"):
        load_tokenizer(str(vocab))
    vocab.write_text("\n".join((*SPECIAL_TOKENS, "cat", "cat")))
    with pytest.raises(InputError, match="same token twice"):
        load_tokenizer(str(vocab))
    with pytest.raises(InputError, match="no tokenizer at"):
        load_tokenizer(str(tmp_path / "absent"))
    with pytest.raises(InputError, match="no tokenizer; set"):
        load_tokenizer("")
    vocab.write_text("\n".join(SPECIAL_TOKENS))
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    assert load_tokenizer(str(tmp_path)).max_length == 1 << 20
