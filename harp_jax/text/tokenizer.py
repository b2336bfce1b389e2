"""Text to token ids with the tokenizer.json of a Hugging Face directory, without torch and offline.

Uses the package `tokenizers`, which imports in 20 ms (`transformers.AutoTokenizer` takes 2 s). Rejects files that
transformers would read differently.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_sums, lines, output_folder, read_json, replacing
from harp_jax.text import wordpiece

if TYPE_CHECKING:
    import tokenizers

VOCABULARY, DEFINITION, CONFIG = FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")  # of a directory
BLANKS = "ĠĊĉ▁"  # space, newline and tab in byte-level BPE and SentencePiece
UNLIMITED = 1 << 20  # max_length where none is recorded

ADVICE = "write or download it again"

CHARACTERS_PER_TOKEN = 8  # English prose has 4 to 5; a text with more than 8 is tokenised again in full


def _prefix(text: str, characters: int) -> str:
    """The text up to the last space within `characters`; the whole text if there is none."""
    return text if len(text) <= characters else text[: text.rfind(" ", 0, characters) + 1].rstrip() or text


@dataclass(frozen=True)
class Template:
    """The special tokens around one or two texts: `start` query `between` document `end`, or `start` text `alone`.

    `second_type` is the token type of document and `end`; everything else has type 0.
    """

    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    alone: tuple[int, ...]
    second_type: int

    @property
    def around_pair(self) -> int:
        """Number of special tokens of a pair."""
        return len(self.start) + len(self.between) + len(self.end)

    @property
    def around_text(self) -> int:
        """Number of special tokens of a single text."""
        return len(self.start) + len(self.alone)


BARE = Template((), (), (), (), 0)  # for whole words: no special tokens


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer.json (without truncation and padding), its special tokens by role, and the model's maximum length in tokens.

    Encodings have no special tokens and are not truncated; offsets are in code points.
    """

    definition: str
    roles: tuple[tuple[str, str], ...]  # "pad", "unk", "cls", "sep", "mask" → token
    max_length: int = UNLIMITED

    @classmethod
    def of_words(cls, tokens: Sequence[str], max_length: int = UNLIMITED, **options: bool | None) -> "Tokenizer":
        """BERT's tokenizer with a vocabulary; `options` as in tokenizer_config.json (`wordpiece.OPTIONS`)."""
        return cls(wordpiece.definition(tokens, **options), tuple(wordpiece.ROLES.items()), max_length)

    @classmethod
    def stand_in(cls, size: int) -> "Tokenizer":
        """A tokenizer of `size` placeholder tokens, for a dry run."""
        words = (f"word{i}" for i in range(size - len(wordpiece.SPECIAL_TOKENS)))
        return cls.of_words((*wordpiece.SPECIAL_TOKENS, *words))

    @cached_property
    def _encoder(self) -> "tokenizers.Tokenizer":
        from tokenizers import Tokenizer as Encoder

        return Encoder.from_str(self.definition)

    @cached_property
    def vocab(self) -> dict[str, int]:
        return self._encoder.get_vocab(with_added_tokens=True)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        return tuple(sorted(self.vocab, key=self.vocab.__getitem__))

    @property
    def size(self) -> int:
        return len(self.vocab)

    def _role(self, name: str) -> int:
        token = dict(self.roles).get(name)
        if token is None:
            raise InputError(f"the tokenizer has no {name}_token; name it in {CONFIG}")
        return self.vocab[token]

    @cached_property
    def pad(self) -> int:
        return self._role("pad")

    @cached_property
    def cls(self) -> int:
        return self._role("cls")

    @cached_property
    def sep(self) -> int:
        return self._role("sep")

    @cached_property
    def mask(self) -> int:
        return self._role("mask")

    @cached_property
    def unk(self) -> int:
        """-1 for byte-level vocabularies, which cover any text."""
        return self._role("unk") if "unk" in dict(self.roles) else -1

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of all special tokens."""
        added = self._encoder.get_added_tokens_decoder()
        return frozenset(i for i, token in added.items() if token.special)

    @cached_property
    def template(self) -> Template:
        """Raises InputError unless a sequence begins with exactly one special token, which the score is computed from."""
        alone, pair = self._encoder.encode("a"), self._encoder.encode("a", "a")
        text, sides = alone.sequence_ids, pair.sequence_ids
        if 0 not in text or 0 not in sides or 1 not in sides or (text.index(0), sides.index(0)) != (1, 1):
            raise InputError(
                "the tokenizer does not begin a sequence with one special token (cls_token); use another model"
            )
        query, document = sides.index(0), sides.index(1)
        between = next(i for i in range(query, document) if sides[i] is None)
        end = len(sides) - sides[::-1].index(1)
        types = pair.type_ids
        if any(types[:document]) or len(set(types[document:])) > 1:
            raise InputError(
                f"the tokenizer gives a pair the token types {types}; only the document's may differ from 0"
            )
        return Template(
            start=tuple(pair.ids[:query]),
            between=tuple(pair.ids[between:document]),
            end=tuple(pair.ids[end:]),
            alone=tuple(alone.ids[len(text) - text[::-1].index(0) :]),
            second_type=types[document],
        )

    @cached_property
    def continues(self) -> np.ndarray:
        """[size] bool: the token continues the previous token's word.

        Detected by the continuation prefix if the vocabulary has one, else by the missing space mark; the first word of a text
        has no space mark either.
        """
        prefix = getattr(self._encoder.model, "continuing_subword_prefix", None)
        if prefix:
            return np.array([token.startswith(prefix) for token in self.tokens])
        return np.array([token[:1].isalnum() and token[:1] not in BLANKS for token in self.tokens])

    @cached_property
    def sha256(self) -> str:
        """Hash of everything that turns text into ids: all but the template and the decoder."""
        parts = json.loads(self.definition)
        made_of = [parts[name] for name in ("added_tokens", "normalizer", "pre_tokenizer", "model")]
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def normalise(self, text: str) -> str:
        """The normalised text, before word splitting; unchanged if the tokenizer has no normaliser."""
        normaliser = self._encoder.normalizer
        return text if normaliser is None else normaliser.normalize_str(text)

    def encode(self, text: str) -> list[int]:
        return self._encoder.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: list[str]) -> "list[tokenizers.Encoding]":
        """One `tokenizers.Encoding` per text (`ids`, `offsets` in code points)."""
        return self._encoder.encode_batch(texts, add_special_tokens=False)

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]:
        """The first `limit` ids of each text, without tokenising the rest of long texts.

        Words are tokenised independently, so truncating a text before white space keeps its first ids.
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
        """Writes a folder for AutoTokenizer, CrossEncoder and `load_tokenizer`, atomically (`digests.output_folder`)."""
        with output_folder(directory) as folder:
            self.write(folder)

    def write(self, directory: str) -> None:
        """Writes tokenizer.json and tokenizer_config.json to a folder, and vocab.txt for BERT's WordPiece."""
        parts = json.loads(self.definition)
        words = parts["model"]["type"] == "WordPiece" and parts["normalizer"]["type"] == "BertNormalizer"
        if words:
            with replacing(os.path.join(directory, VOCABULARY)) as file:
                file.write("".join(f"{token}\n" for token in self.tokens))
        with replacing(os.path.join(directory, DEFINITION)) as file:
            file.write(self._encoder.to_str(pretty=True))
        config: dict[str, Any] = {"tokenizer_class": wordpiece.CLASSES[0] if words else "PreTrainedTokenizerFast"}
        if self.max_length < UNLIMITED:
            # Without it transformers assumes inputs of 10^30 tokens and never truncates.
            config["model_max_length"] = self.max_length
        config |= {f"{role}_token": token for role, token in self.roles}
        config |= wordpiece.options_of(parts["normalizer"]) if words else {}
        with replacing(os.path.join(directory, CONFIG)) as file:
            json.dump(config, file, indent=2)


def load_tokenizer(path: str) -> Tokenizer:
    """Loads a Hugging Face directory (tokenizer.json or vocab.txt), or a vocab.txt file.

    Raises InputError if there is none, if its files contradict each other, or if they changed since they were written
    (`digests`).
    """
    if not path:
        raise InputError("no tokenizer; set `tokenizer` to a Hugging Face directory or a vocab.txt")
    if os.path.isfile(path):
        check_sums(os.path.dirname(path), [os.path.basename(path)])
        return _checked(Tokenizer.of_words(_words(path)), path)
    paths = {name: os.path.join(path, name) for name in FILES}
    held = {name for name in FILES if os.path.isfile(paths[name])}
    if not held & {VOCABULARY, DEFINITION}:
        hint = "" if os.path.exists(path) else how_to_fetch(path)
        raise InputError(f"no tokenizer at {path}; use a Hugging Face directory or a vocab.txt{hint}")
    check_sums(path, FILES)
    config = read_json(paths[CONFIG], ADVICE) if CONFIG in held else {}
    text = _definition(paths[DEFINITION]) if DEFINITION in held else ""
    model = json.loads(text)["model"] if text else {}
    words = _words(paths[VOCABULARY]) if VOCABULARY in held else []
    if words and text and {word: i for i, word in enumerate(words)} != model["vocab"]:
        raise InputError(f"{path}: {VOCABULARY} and {DEFINITION} hold different vocabularies; remove the wrong one")
    kind = config.get("tokenizer_class", wordpiece.CLASSES[0])
    if kind in wordpiece.CLASSES:
        text = _as_words(path, text, words, config)
    elif not text:
        raise InputError(f"{path}: a {kind} needs {DEFINITION}; save it with transformers' save_pretrained")
    roles = {role: name for role in wordpiece.ROLES if (name := _named(config, role, kind))}
    recorded = config.get("model_max_length")
    # transformers writes 10^30 for an unknown length, other tools null.
    limit = int(min(recorded, UNLIMITED)) if isinstance(recorded, int | float) and recorded > 0 else UNLIMITED
    found = _checked(Tokenizer(text, tuple(roles.items()), limit), path)
    added = {_content(token): str(i) for i, token in (config.get("added_tokens_decoder") or {}).items()}
    if os.path.isfile(place := os.path.join(path, "added_tokens.json")):
        added |= {token: str(i) for token, i in read_json(place, ADVICE).items()}
    for token, i in added.items():
        if str(found.vocab.get(token)) != i:
            raise InputError(
                f"{path} adds {token!r} as {i}, which is no token of its vocabulary; save it as {DEFINITION}"
            )
    return found


def _words(path: str) -> list[str]:
    """The tokens of a vocab.txt. InputError for duplicate lines, which would make ids ambiguous."""
    words = [line for _, line in lines(path)]
    if len(set(words)) != len(words):
        raise InputError(f"{path} has the same token twice, so ids are ambiguous; remove the duplicate")
    missing = [token for token in wordpiece.SPECIAL_TOKENS if token not in words]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; it is not a BERT WordPiece vocabulary")
    return words


def _definition(path: str) -> str:
    """A tokenizer.json as `tokenizers` writes it, without truncation and padding."""
    from tokenizers import Tokenizer as Encoder

    try:
        encoder = Encoder.from_str(json.dumps(read_json(path, ADVICE)))
        encoder.no_truncation()
        encoder.no_padding()
        return encoder.to_str()
    except InputError:
        raise
    except Exception as error:  # tokenizers raises nothing more special
        raise InputError(f"{path} is no tokenizer ({str(error)[:200]}); {ADVICE}") from error


def _as_words(path: str, text: str, words: list[str], config: dict[str, Any]) -> str:
    """The definition that transformers' BertTokenizer builds from a vocabulary and tokenizer_config.json.

    BertTokenizer reads only the vocabulary from tokenizer.json: InputError if the rest differs (casing, BPE).
    """
    options = {name: config.get(name, default) for name, default in wordpiece.OPTIONS.items()}
    if not all(value is None or isinstance(value, bool) for value in options.values()):
        raise InputError(f"{path}: {', '.join(options)} in {CONFIG} are true, false or null; {ADVICE}")
    if not text:
        return wordpiece.definition(words, **options)
    theirs = json.loads(text)
    if theirs["model"]["type"] == "WordPiece":
        vocab = theirs["model"]["vocab"]
        made = json.loads(wordpiece.definition(sorted(vocab, key=vocab.__getitem__), **options))
        wrong = [part for part in ("normalizer", "pre_tokenizer", "model") if made[part] != theirs[part]]
    else:
        wrong = ["model"]
    if wrong:
        raise InputError(
            f"{path}: the {wrong[0]} of {DEFINITION} is not that of a BertTokenizer with the options of {CONFIG}; correct "
            "tokenizer_class or the options"
        )
    return text


def _content(token: Any) -> str:
    return token.get("content", "") if isinstance(token, dict) else str(token)


def _named(config: dict[str, Any], role: str, kind: str) -> str:
    """The token for a role, or ""."""
    default = wordpiece.ROLES[role] if kind in wordpiece.CLASSES else ""
    return _content(config.get(f"{role}_token") or default)


def _checked(tokenizer: Tokenizer, path: str) -> Tokenizer:
    """Raises InputError for gaps in the ids, and for special tokens missing from the vocabulary."""
    try:
        ids = sorted(tokenizer.vocab.values())
    except Exception as error:  # tokenizers raises nothing more special
        raise InputError(f"{path} is no tokenizer ({str(error)[:200]}); {ADVICE}") from error
    if ids != list(range(len(ids))):
        raise InputError(f"{path}: the ids of its {len(ids)} tokens are not 0 to {len(ids) - 1}; {ADVICE}")
    for role, token in tokenizer.roles:
        if token not in tokenizer.vocab:
            raise InputError(f"{path}: its {role}_token {token!r} is not in the vocabulary; {ADVICE}")
    return tokenizer
