"""Text to token ids with the tokenizer.json of a Hugging Face directory, without torch and offline.

Uses the package `tokenizers`, which imports in 20 ms (`transformers.AutoTokenizer` takes 2 s). Rejects files that
transformers would read differently.
"""

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_sums, lines, output_folder, read_json, replacing
from harp_jax.text.languages import UNSPACED_LETTER

if TYPE_CHECKING:
    import tokenizers

VOCABULARY, DEFINITION, CONFIG = FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")  # of a directory
ROLES_FILE = "special_tokens_map.json"
# Byte-level BPE's letter for each byte: printable Latin-1 bytes are unchanged, the others become U+0100 and following.
_SAME = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_LETTERS = {chr(i): i for i in _SAME} | {
    chr(0x100 + n): i for n, i in enumerate(i for i in range(256) if i not in _SAME)
}
BYTE = re.compile("<0x([0-9A-F]{2})>")  # SentencePiece's token for a byte of a character without a token
UNLIMITED = 1 << 20  # max_length if none is recorded

ADVICE = "write or download it again"
# BERT's tokenizer (WordPiece): special tokens, their roles, transformers' classes, and options with their defaults. Not in
# `model/encoders`: other architectures have a vocab.txt too, and generation jobs read it without JAX.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS))
CLASSES = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")
# Classes that transformers rebuilds from the vocabulary of tokenizer.json, and normalisers that it keeps or that have no effect.
REBUILT = {"XLMRobertaTokenizer": {"Precompiled", "Replace", "Strip"}, "RobertaTokenizer": set()}
NORMALISER = ("lowercase", "strip_accents", "handle_chinese_chars")  # in tokenizer.json, in the order of OPTIONS
OPTIONS: dict[str, bool | None] = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}

CHARACTERS_PER_TOKEN = 8  # English prose has 4 to 5; a text with more than 8 is tokenised again in full


def definition(
    tokens: Sequence[str],
    do_lower_case: bool | None = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool | None = True,
) -> str:
    """The tokenizer.json of BERT's tokenizer for a vocabulary, as text. strip_accents None: same as do_lower_case."""
    from tokenizers import BertWordPieceTokenizer

    made = BertWordPieceTokenizer(
        {token: i for i, token in enumerate(tokens)},
        lowercase=bool(do_lower_case),
        strip_accents=strip_accents,
        handle_chinese_chars=bool(tokenize_chinese_chars),
    )
    return made.to_str()


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

    @cached_property
    def around_pair(self) -> int:
        """Number of special tokens of a pair."""
        return len(self.start) + len(self.between) + len(self.end)

    @cached_property
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
        """BERT's tokenizer for a vocabulary; `options` as in tokenizer_config.json (OPTIONS)."""
        return cls(definition(tokens, **options), tuple(ROLES.items()), max_length)

    @classmethod
    def stand_in(cls, size: int) -> "Tokenizer":
        """A tokenizer of `size` placeholder tokens, for a dry run."""
        words = (f"word{i}" for i in range(size - len(SPECIAL_TOKENS)))
        return cls.of_words((*SPECIAL_TOKENS, *words))

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

    def _other(self, role: str, token: str) -> bool:
        return dict(self.roles).get(role, token) != token

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

    @property
    def added(self) -> dict[str, str]:
        """Token → id of the tokens that are never split."""
        return {token.content: str(i) for i, token in self._encoder.get_added_tokens_decoder().items()}

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of all special tokens."""
        added = self._encoder.get_added_tokens_decoder()
        return frozenset(i for i, token in added.items() if token.special)

    @cached_property
    def template(self) -> Template:
        """InputError unless a sequence begins with exactly one special token, its cls_token, which the score is computed from."""
        alone, pair = self._encoder.encode("a"), self._encoder.encode("a", "a")
        text, sides, types = alone.sequence_ids, pair.sequence_ids, pair.type_ids
        begins = [ids.index(0) if 0 in ids else 0 for ids in (text, sides)] == [1, 1]
        document = sides.index(1) if 1 in sides else 0
        if not (begins and document) or any(types[:document]) or len(set(types[document:])) > 1:
            raise InputError(
                "the tokenizer must begin a sequence with one special token (cls_token), and only the document of a pair may have "
                "another token type than 0; use another model"
            )
        if wrong := [role for role, place in (("cls", 0), ("sep", -1)) if self._other(role, pair.tokens[place])]:
            raise InputError(
                f"the template of {DEFINITION} does not have the {wrong[0]}_token of {CONFIG} in its place; {ADVICE}"
            )
        between = next(i for i in range(1, document) if sides[i] is None)
        return Template(
            start=tuple(pair.ids[:1]),
            between=tuple(pair.ids[between:document]),
            end=tuple(pair.ids[len(sides) - sides[::-1].index(1) :]),
            alone=tuple(alone.ids[len(text) - text[::-1].index(0) :]),
            second_type=types[document],
        )

    @cached_property
    def continues(self) -> np.ndarray:
        """[size] bool: the token continues the previous token's word.

        Detected by the continuation prefix if the vocabulary has one, else by the missing space mark; the first word of a text
        has no space mark either. In scripts without spaces every token is a word. Byte tokens within a character continue it; the
        first byte of a two-byte character continues a word, since most of these characters are letters.
        """
        prefix = getattr(self._encoder.model, "continuing_subword_prefix", None) or ""
        byte_level = (json.loads(self.definition)["decoder"] or {}).get("type") == "ByteLevel"

        def continued(token: str) -> bool:
            spelled = token.removeprefix(prefix).encode()
            if byte := BYTE.fullmatch(token):
                spelled = bytes([int(byte[1], 16)])
            elif byte_level and all(letter in BYTE_LETTERS for letter in token):
                spelled = bytes(BYTE_LETTERS[letter] for letter in token)
            first, letter = spelled[:1], spelled[:4].decode(errors="ignore")[:1]
            if b"\x80" <= first < b"\xc0" or not letter:  # within a character, or not a whole one
                return b"\x80" <= first < b"\xc0" or b"\xc2" < first < b"\xe0"
            marked = token.startswith(prefix) if prefix else unicodedata.category(letter)[0] in "LMN"
            return marked and not UNSPACED_LETTER.match(letter)

        return np.array([continued(token) for token in self.tokens])

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
        """Writes a folder for AutoTokenizer, CrossEncoder and `load_tokenizer`, atomically (`output_folder`)."""
        with output_folder(directory) as folder:
            self.write(folder)

    def write(self, directory: str) -> None:
        """Writes tokenizer.json and tokenizer_config.json to a folder, and vocab.txt for BERT's WordPiece."""
        parts = json.loads(self.definition)
        words = parts["model"]["type"] == "WordPiece" and (parts["normalizer"] or {}).get("type") == "BertNormalizer"
        if words:
            with replacing(os.path.join(directory, VOCABULARY)) as file:
                file.write("".join(f"{token}\n" for token in self.tokens))
        with replacing(os.path.join(directory, DEFINITION)) as file:
            file.write(self._encoder.to_str(pretty=True))
        config: dict[str, Any] = {"tokenizer_class": CLASSES[0] if words else "PreTrainedTokenizerFast"}
        if self.max_length < UNLIMITED:
            # Without it transformers assumes inputs of 10^30 tokens and never truncates.
            config["model_max_length"] = self.max_length
        config |= {f"{role}_token": token for role, token in self.roles}
        config |= dict(zip(OPTIONS, (parts["normalizer"][name] for name in NORMALISER))) if words else {}
        with replacing(os.path.join(directory, CONFIG)) as file:
            json.dump(config, file, indent=2)


def load_tokenizer(path: str) -> Tokenizer:
    """Loads a Hugging Face directory (tokenizer.json or vocab.txt), or a vocab.txt file.

    InputError if there is none, if its files contradict each other, or if they changed since they were written (SHA256SUMS).
    """
    if os.path.isfile(path):
        paths = {VOCABULARY: path}
    else:
        paths = {name: place for name in FILES if os.path.isfile(place := os.path.join(path, name))}
    if not paths.keys() & {VOCABULARY, DEFINITION}:
        hint = "" if os.path.exists(path) else how_to_fetch(path)
        raise InputError(f"no tokenizer at {path!r}; set `tokenizer` to a Hugging Face directory or a vocab.txt{hint}")
    if os.path.isfile(path):
        check_sums(os.path.dirname(path), [os.path.basename(path)])
    else:
        check_sums(path, FILES)
    config = read_json(paths[CONFIG], ADVICE) if CONFIG in paths else {}
    text = _definition(paths[DEFINITION]) if DEFINITION in paths else ""
    words = [line for _, line in lines(paths[VOCABULARY])] if VOCABULARY in paths else []
    kind = str(config.get("tokenizer_class", CLASSES[0]))
    found, wrong = None, _contradiction(kind, config, text, words)
    if not wrong:
        added = {_content(token): str(i) for i, token in (config.get("added_tokens_decoder") or {}).items()}
        if os.path.isfile(place := os.path.join(path, "added_tokens.json")):
            added |= {token: str(i) for token, i in read_json(place, ADVICE).items()}
        added |= {_content(token): "" for token in config.get("additional_special_tokens") or ()}
        roles = {role: name for role in ROLES if (name := _named(config, role, kind))}
        recorded = config.get("model_max_length")
        # transformers writes 10^30 for an unknown length, other tools null.
        limit = int(min(recorded, UNLIMITED)) if isinstance(recorded, int | float) and recorded > 0 else UNLIMITED
        text = text or definition(words, **_options(config))
        found = Tokenizer(text, tuple(roles.items()), limit)
        place = os.path.join(path, ROLES_FILE)
        theirs = read_json(place, ADVICE) if os.path.isfile(place) else {}
        wrong = _unusable(found, added) or next(
            (
                f"{ROLES_FILE} and {CONFIG} name different {role}_tokens"
                for role, token in found.roles
                if _content(theirs.get(f"{role}_token") or token) != token
            ),
            "",
        )
    if wrong or found is None:
        raise InputError(f"{path}: {wrong}; {ADVICE}")
    return found


def _definition(path: str) -> str:
    """A tokenizer.json as `tokenizers` writes it, without truncation and padding."""
    from tokenizers import Tokenizer as Encoder

    parts = read_json(path, ADVICE)
    try:
        encoder = Encoder.from_str(json.dumps(parts))
        encoder.no_truncation()
        encoder.no_padding()
        return encoder.to_str()
    except Exception as error:  # tokenizers raises nothing more specific
        raise InputError(f"{path} is not a tokenizer ({str(error)[:200]}); {ADVICE}") from error


def _contradiction(kind: str, config: dict[str, Any], text: str, words: list[str]) -> str:
    """Why transformers would read tokenizer_config.json, tokenizer.json (`text`) and vocab.txt (`words`) differently; or "".

    Its BertTokenizer reads only the vocabulary of tokenizer.json: the rest must match the options of the config.
    """
    ids = {word: i for i, word in enumerate(words)}
    theirs = json.loads(text) if text else {}
    vocab = theirs["model"]["vocab"] if text else ids
    if len(ids) != len(words):
        return f"{VOCABULARY} has the same token twice, so ids are ambiguous"
    if words and vocab != ids:
        return f"{VOCABULARY} and {DEFINITION} hold different vocabularies; remove the wrong one"
    if not isinstance(config.get("added_tokens_decoder") or {}, dict):
        return f"added_tokens_decoder in {CONFIG} must map ids to tokens"
    if config.get("auto_map"):
        return f"it needs custom code (auto_map in {CONFIG}), which is not executed here"
    if config.get("truncation_side", "right") != "right":
        return f"truncation_side in {CONFIG} is not 'right'; texts are truncated at their end"
    if kind not in CLASSES:
        part = theirs.get("normalizer") or {"normalizers": []}
        types = {each["type"] for each in part.get("normalizers", [part])}
        if dropped := sorted(types - REBUILT.get(kind.removesuffix("Fast"), types)):
            return (
                f"transformers' {kind} drops {dropped[0]} of the normalizer; name PreTrainedTokenizerFast in {CONFIG}"
            )
        return "" if text else f"a {kind} needs {DEFINITION}"
    if lacking := [token for token in SPECIAL_TOKENS if token not in vocab]:
        return f"the vocabulary lacks {', '.join(lacking)}; it is not one of BERT's"
    if not all(value is None or isinstance(value, bool) for value in _options(config).values()):
        return f"{', '.join(OPTIONS)} in {CONFIG} must be true, false or null"
    wrong = ["model"] if text else []
    if text and theirs["model"]["type"] == "WordPiece":
        made = json.loads(definition(sorted(vocab, key=vocab.__getitem__), **_options(config)))
        wrong = [part for part in ("normalizer", "pre_tokenizer", "model") if made[part] != theirs[part]]
    return f"the {wrong[0]} of {DEFINITION} differs from that of a {kind} with the options of {CONFIG}" if wrong else ""


def _unusable(tokenizer: Tokenizer, added: dict[str, str]) -> str:
    """Gaps in the ids, missing special tokens, or `added` tokens (token → id, or "") missing or under another id; or ""."""
    try:
        vocab, marked = tokenizer.vocab, tokenizer.added
    except Exception as error:  # tokenizers raises nothing more specific
        return f"it is not a tokenizer ({str(error)[:200]})"
    if sorted(vocab.values()) != list(range(len(vocab))):
        return f"the ids of its {len(vocab)} tokens are not 0 to {len(vocab) - 1}"
    for role, token in tokenizer.roles:
        if token not in vocab:
            return f"its {role}_token {token!r} is not in the vocabulary"
    wrong = next((token for token, i in added.items() if token not in marked or i not in ("", marked[token])), None)
    return "" if wrong is None else f"it adds {wrong!r} as {added[wrong] or 'a token'}, which is not in {DEFINITION}"


def _options(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config.get(name, default) for name, default in OPTIONS.items()}


def _content(token: Any) -> str:
    return token.get("content", "") if isinstance(token, dict) else str(token)


def _named(config: dict[str, Any], role: str, kind: str) -> str:
    """The token for a role, or ""."""
    return _content(config.get(f"{role}_token") or (ROLES[role] if kind in CLASSES else ""))


@dataclass(frozen=True)
class Marks:
    """Token ids before every query and every document, such as [Q] and [D] in coarse-tuning; -1: none.

    They are unused tokens of the vocabulary. A model trained with marks needs them at inference: configs and exports record them.
    """

    query: int = -1
    document: int = -1

    def on_query(self, ids: np.ndarray) -> np.ndarray:
        """ids: [n] int32 → [n + 1] with the mark, or [n] without one."""
        return ids if self.query < 0 else np.concatenate([np.array([self.query], np.int32), ids])

    def on_document(self, ids: np.ndarray) -> np.ndarray:
        """As `on_query`."""
        return ids if self.document < 0 else np.concatenate([np.array([self.document], np.int32), ids])

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(i for i in (self.query, self.document) if i >= 0)


MARKS = "harp_jax_marks"  # key in config.json of an export with marks
NO_MARKS = Marks()


def marks_of(tokenizer: Tokenizer, tokens: Sequence[str]) -> Marks:
    """The marks for two tokens ("" for none), or for (). InputError for an unknown token, or another number."""
    unknown = [token for token in tokens if token and (not isinstance(token, str) or token not in tokenizer.vocab)]
    if unknown or len(tokens) not in (0, 2):
        wrong = f"the vocabulary has no token {unknown[0]!r}" if unknown else "queries and documents need one each"
        raise InputError(
            f"marks={tuple(tokens)!r}: {wrong}; name two of the vocabulary's [unused…] tokens, or none: ()"
        )
    return Marks(*(tokenizer.vocab[token] if token else -1 for token in tokens))


def recorded_marks(directory: str, tokenizer: Tokenizer) -> Marks:
    """The marks that a training workdir or an export was trained with."""
    path = os.path.join(directory, "config.json")
    config = read_json(path) if os.path.exists(path) else {}
    found = config.get(MARKS) or config.get("marks") or []
    return marks_of(tokenizer, found if isinstance(found, list) else [found, ""])
