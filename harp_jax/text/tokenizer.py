"""BERT's WordPiece tokenizer from a Hugging Face directory or a vocab.txt, without torch and without a network."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.digests import check_sums, output_folder
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import lines, read_json, replacing

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer, Encoding

FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")  # of a directory; the first two say the same
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

ADVICE = "write or download it again"

CHARACTERS_PER_TOKEN = 8  # English prose has 4 to 5; a text with more is tokenised again in full


def _prefix(text: str, characters: int) -> str:
    """The text up to the last blank within `characters`; the whole text if there is none."""
    return text if len(text) <= characters else text[: text.rfind(" ", 0, characters) + 1] or text


@dataclass(frozen=True)
class Tokenizer:
    """Text to wordpiece ids. Encodings carry no special tokens and are not truncated; offsets are code points."""

    tokens: tuple[str, ...]
    lowercase: bool = True
    max_length: int = 512
    strip_accents: bool | None = None  # None: as `lowercase`
    tokenize_chinese_chars: bool = True

    @cached_property
    def vocab(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    @cached_property
    def _encoder(self) -> "BertWordPieceTokenizer":
        from tokenizers import BertWordPieceTokenizer

        return BertWordPieceTokenizer(
            dict(self.vocab),
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
            handle_chinese_chars=self.tokenize_chinese_chars,
        )

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def pad(self) -> int:
        return self.vocab["[PAD]"]

    @property
    def unk(self) -> int:
        return self.vocab["[UNK]"]

    @property
    def cls(self) -> int:
        return self.vocab["[CLS]"]

    @property
    def sep(self) -> int:
        return self.vocab["[SEP]"]

    @property
    def mask(self) -> int:
        return self.vocab["[MASK]"]

    @cached_property
    def sha256(self) -> str:
        """Identity of the vocabulary: its tokens in order, the casing, and the options that differ from the defaults."""
        text = "\n".join(self.tokens) + ("\nuncased" if self.lowercase else "\ncased")
        text += "" if self.strip_accents is None else f"\nstrip_accents={self.strip_accents}"
        text += "" if self.tokenize_chinese_chars else "\nchinese words"
        return hashlib.sha256(text.encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        return self._encoder.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: list[str]) -> "list[Encoding]":
        """One `tokenizers.Encoding` a text (`ids`, `offsets` in code points)."""
        return self._encoder.encode_batch(texts, add_special_tokens=False)

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]:
        """The first `limit` ids of each text, without tokenising the rest of long texts.

        Words are tokenised independently, so a text truncated at white space has the same first ids.
        """
        prefixes = [_prefix(text, CHARACTERS_PER_TOKEN * limit) for text in texts]
        ids = [encoding.ids[:limit] for encoding in self.encode_batch(prefixes)]
        short = [i for i, text in enumerate(texts) if len(ids[i]) < limit and len(prefixes[i]) < len(text)]
        for i, encoding in zip(short, self.encode_batch([texts[i] for i in short])):
            ids[i] = encoding.ids[:limit]
        return ids

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        return self._encoder.decode([int(i) for i in ids], skip_special_tokens=False)

    def save(self, directory: str) -> None:
        """Writes a folder for AutoTokenizer, CrossEncoder and `load_tokenizer`, whole or not at all (`digests.output_folder`)."""
        with output_folder(directory) as folder:
            self.write(folder)

    def write(self, directory: str) -> None:
        """Adds vocab.txt, tokenizer.json and tokenizer_config.json to a folder."""
        with replacing(os.path.join(directory, "vocab.txt")) as file:
            file.write("".join(token + "\n" for token in self.tokens))
        self._encoder.save(os.path.join(directory, "tokenizer.json"))
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            # Without it transformers assumes inputs of 10^30 tokens and never truncates.
            "model_max_length": self.max_length,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
        }
        with replacing(os.path.join(directory, "tokenizer_config.json")) as file:
            json.dump(config, file, indent=2)


def load_tokenizer(path: str) -> Tokenizer:
    """A tokenizer from a Hugging Face directory (its vocab.txt, or tokenizer.json) or from a vocab.txt.

    Raises InputError if there is none, if special tokens are missing, for duplicate tokens, and for files that were changed
    since they were written (`digests`).
    """
    if not path:
        raise InputError("no tokenizer; set `tokenizer` to a Hugging Face directory or a vocab.txt")
    lowercase, max_length, vocab_file = True, 512, path
    accents: bool | None = None
    chinese = True
    if os.path.isdir(path):
        check_sums(path, FILES)
        vocab_file = os.path.join(path, "vocab.txt")
        recorded_in = os.path.join(path, "tokenizer_config.json")
        config = read_json(recorded_in, ADVICE) if os.path.exists(recorded_in) else {}
        lowercase, chinese = config.get("do_lower_case", True), config.get("tokenize_chinese_chars", True)
        accents = config.get("strip_accents")
        if not all(value is None or isinstance(value, bool) for value in (lowercase, chinese, accents)):
            raise InputError(
                f"{recorded_in}: do_lower_case, strip_accents and tokenize_chinese_chars are true, false or null; {ADVICE}"
            )
        lowercase, chinese = bool(lowercase), bool(chinese)
        # transformers writes 10^30 for an unknown length, other tools null.
        recorded = config.get("model_max_length")
        max_length = int(min(recorded, 1 << 20)) if isinstance(recorded, int | float) and recorded > 0 else max_length
    elif os.path.isfile(path):
        check_sums(os.path.dirname(path), [os.path.basename(path)])
    if os.path.exists(vocab_file):
        tokens = [line for _, line in lines(vocab_file)]
    elif os.path.isdir(path) and os.path.exists(os.path.join(path, "tokenizer.json")):
        tokens = _tokens_of(os.path.join(path, "tokenizer.json"))
    else:
        hint = "" if os.path.exists(path) else how_to_fetch(path)
        raise InputError(f"no tokenizer at {path}; use a Hugging Face directory or a vocab.txt{hint}")
    missing = [token for token in SPECIAL_TOKENS if token not in tokens]
    if missing:
        raise InputError(f"{vocab_file} lacks {', '.join(missing)}; it is not a BERT WordPiece vocabulary")
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: a token contains half a surrogate pair; {ADVICE}") from error
    if len(set(tokens)) != len(tokens):
        raise InputError(f"{vocab_file} has the same token twice, so ids are ambiguous; remove the duplicate")
    return Tokenizer(tuple(tokens), lowercase, max_length, accents, chinese)


def _tokens_of(path: str) -> list[str]:
    """The tokens of a tokenizer.json by id. Raises InputError unless their ids are 0, 1, 2, …"""
    try:
        vocab = read_json(path, ADVICE)["model"]["vocab"]
        tokens = sorted(vocab, key=vocab.__getitem__)
        numbered = [vocab[token] for token in tokens] == list(range(len(tokens)))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no WordPiece vocabulary ({error!r}); {ADVICE}") from error
    if not numbered:
        raise InputError(f"{path}: the ids of its {len(tokens)} tokens are not 0 to {len(tokens) - 1}; {ADVICE}")
    return tokens
