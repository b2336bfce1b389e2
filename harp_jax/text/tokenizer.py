"""Text to token ids with a Hugging Face tokenizer, without torch and offline.

`transformers` decides how a directory of others is read. A `Tokenizer` then holds its tokenizer.json as text, which the package
`tokenizers` loads in 20 ms: encoding, worker processes and directories of harp_jax need no `transformers`.
"""

import contextlib
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from harp_jax.base import files
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import read_json, replacing
from harp_jax.base.version import __version__
from harp_jax.text.languages import UNSPACED_LETTER

if TYPE_CHECKING:
    import tokenizers
    from transformers import PreTrainedTokenizerFast

ADVICE = "write or download it again"
VOCABULARY, DEFINITION, CONFIG = FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")  # of a directory
# Files that hold a vocabulary; with none of them transformers would make a tokenizer of five tokens.
VOCABULARIES = (DEFINITION, VOCABULARY, "vocab.json", "sentencepiece.bpe.model")
# All files that transformers reads for a tokenizer.
READ = (
    *VOCABULARIES, CONFIG, "config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "tokenizer.model",
)  # fmt: skip
# Byte-level BPE's letter for each byte: printable Latin-1 bytes are unchanged, the others become U+0100 and following.
_SAME = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_LETTERS = {chr(i): i for i in _SAME} | {chr(0x100 + n): i for n, i in enumerate(sorted({*range(256)} - {*_SAME}))}
BYTE = re.compile("<0x([0-9A-F]{2})>")  # SentencePiece's token for a byte of a character without a token
UNLIMITED = 1 << 20  # max_length if none is recorded
MOST_LABELS = 10_000  # transformers names each one
SHORTEST = 8  # smallest max_length: room for part of a query and of a document

# BERT's tokenizer (WordPiece): special tokens, their roles, and its options in tokenizer_config.json and in tokenizer.json.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS))
OPTIONS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
NORMALISER = ("lowercase", "strip_accents", "handle_chinese_chars")
TOKEN_TYPES = "token_type_ids"
# What turns text into ids: all parts of tokenizer.json but the template and the decoder.
PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "model")
CHARACTERS_PER_TOKEN = 8  # English prose has 4 to 5; a text with more than 8 is tokenised again in full


def definition(
    tokens: Sequence[str],
    do_lower_case: bool | None = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool | None = True,
) -> str:
    """The tokenizer.json of BERT's tokenizer for a vocabulary, as text. strip_accents None: same as do_lower_case."""
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import TemplateProcessing

    ids = {token: i for i, token in enumerate(tokens)}
    lacking = [token for token in SPECIAL_TOKENS if token not in ids]
    if lacking or len(ids) < len(tokens):
        wrong = f"lacks {', '.join(lacking)}, so it is not one of BERT's" if lacking else "has the same token twice"
        raise InputError(f"the vocabulary {wrong}; {ADVICE}")
    lower, chinese = bool(do_lower_case), bool(tokenize_chinese_chars)
    made = BertWordPieceTokenizer(ids, lowercase=lower, strip_accents=strip_accents, handle_chinese_chars=chinese)
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    return made.to_str()


@dataclass(frozen=True)
class Template:
    """The special tokens around one or two texts: `start` query `between` document `end`, or `start` text `alone`. `second_type` is
    the token type of document and `end`; everything else has type 0."""

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


class Vocabulary(Protocol):
    """What a training on judged queries needs of a `Tokenizer`, or of another table of words."""

    @property
    def sha256(self) -> str: ...

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]: ...

    def save(self, directory: str) -> None: ...


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer.json (without truncation and padding), its special tokens by role, and the model's maximum length in tokens.
    Encodings have no special tokens and are not truncated; offsets are in code points."""

    definition: str
    roles: tuple[tuple[str, str], ...]  # "pad", "unk", "cls", "sep", "mask" → token
    max_length: int = UNLIMITED
    token_types: bool = True  # False: the model reads type 0 for all tokens, whatever the template says

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

    def _role(self, name: str) -> int:
        token = dict(self.roles).get(name)
        if token is None:
            raise InputError(f"the tokenizer has no {name}_token; name it in {CONFIG}")
        return self.vocab[token]

    pad = cached_property[int](lambda self: self._role("pad"))
    cls = cached_property[int](lambda self: self._role("cls"))
    sep = cached_property[int](lambda self: self._role("sep"))
    mask = cached_property[int](lambda self: self._role("mask"))

    @cached_property
    def unk(self) -> int:
        """-1 for byte-level vocabularies, which cover any text."""
        return self._role("unk") if "unk" in dict(self.roles) else -1

    @cached_property
    def template(self) -> Template:
        """The special tokens that the tokenizer puts around a probe text and a probe pair. InputError unless a sequence begins with
        a special token, which the score is computed from."""
        single, pair = self._encoder.encode("a"), self._encoder.encode("a", "a")
        # The query is probed by the first and last place of text 0, the document by those of text 1.
        query = [i for i, text in enumerate(pair.sequence_ids) if text == 0] or [0]
        document = [i for i, text in enumerate(pair.sequence_ids) if text == 1] or [0]
        alone = [i for i, text in enumerate(single.sequence_ids) if text == 0] or [0]
        types = pair.type_ids if self.token_types else [0] * len(pair)
        first, second = types[: document[0]], types[document[0] :]
        if not 0 < alone[0] == query[0] < document[0] or any(first) or len(set(second)) > 1:
            raise InputError(
                "the tokenizer must begin a sequence with a special token (cls_token), and only the document of a pair may have "
                "another token type than 0; use another model"
            )
        return Template(
            start=tuple(pair.ids[: query[0]]),
            between=tuple(pair.ids[query[-1] + 1 : document[0]]),
            end=tuple(pair.ids[document[-1] + 1 :]),
            alone=tuple(single.ids[alone[-1] + 1 :]),
            second_type=second[0],
        )

    @cached_property
    def continues(self) -> np.ndarray:
        """[size] bool: the token continues the previous token's word. Detected by the continuation prefix if the vocabulary has
        one, else by the missing space mark; the first word of a text has no space mark either. In scripts without spaces every
        token is a word. Byte tokens within a character continue it; the first byte of a two-byte character continues a word, since
        most of these characters are letters."""
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
        """Hash of everything that turns text into ids (PARTS)."""
        parts = json.loads(self.definition)
        return hashlib.sha256(json.dumps([parts[name] for name in PARTS], sort_keys=True).encode()).hexdigest()

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
        """The first `limit` ids of each text, without tokenising the rest of long texts. Words are tokenised independently, so
        truncating a text before white space keeps its first ids."""
        most = CHARACTERS_PER_TOKEN * limit
        # Up to the last space within `most`; the whole text if there is none.
        prefixes = [
            each if len(each) <= most else each[: each.rfind(" ", 0, most) + 1].rstrip() or each for each in texts
        ]
        ids = [encoding.ids[:limit] for encoding in self.encode_batch(prefixes)]
        short = [i for i, text in enumerate(texts) if len(ids[i]) < limit and len(prefixes[i]) < len(text)]
        for i, encoding in zip(short, self.encode_batch([texts[i] for i in short])):
            ids[i] = encoding.ids[:limit]
        return ids

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        return self._encoder.decode([int(i) for i in ids], skip_special_tokens=False)

    def save(self, directory: str) -> None:
        """Writes a folder for AutoTokenizer, CrossEncoder and `load_tokenizer`, atomically (`output_folder`)."""
        with files.output_folder(directory) as folder:
            self.write(folder)

    def write(self, directory: str) -> None:
        """Writes tokenizer.json and tokenizer_config.json to a folder, and vocab.txt for a WordPiece."""
        parts = json.loads(self.definition)
        normalizer = parts["normalizer"] or {}
        options: dict[str, bool | None] = {}
        if normalizer.get("type") == "BertNormalizer":
            options = dict(zip(OPTIONS, map(normalizer.get, NORMALISER)))
        bert = bool(options) and self.roles == tuple(ROLES.items())
        bert = bert and _same_ids(self.definition, definition(self.tokens, **options))
        config: dict[str, Any] = {"tokenizer_class": "BertTokenizer" if bert else "PreTrainedTokenizerFast", **options}
        # The general class reads all of tokenizer.json, but passes token types only if they are listed.
        types = [TOKEN_TYPES] if self.token_types else []
        config["model_input_names"] = ["input_ids", *types, "attention_mask"]
        if self.max_length < UNLIMITED:  # without it transformers assumes inputs of 10^30 tokens and never truncates
            config["model_max_length"] = self.max_length
        config |= {f"{role}_token": token for role, token in self.roles}
        contents = {DEFINITION: self._encoder.to_str(pretty=True), CONFIG: json.dumps(config, indent=2)}
        if parts["model"]["type"] == "WordPiece":
            contents[VOCABULARY] = "".join(f"{token}\n" for token in self.tokens)
        for name, content in contents.items():
            with replacing(os.path.join(directory, name)) as file:
                file.write(content)


def load_tokenizer(path: str) -> Tokenizer:
    """Loads a Hugging Face directory as AutoTokenizer does, or a vocab.txt file (as uncased BERT's). A copy in the cache of what
    transformers read saves the next process, such as a worker, the import. InputError if there is no tokenizer, if it is of a kind
    that cannot be used here, or if its files were changed (SHA256SUMS)."""
    folder, file = os.path.split(path) if os.path.isfile(path) else (path, "")
    files.check_sums(folder, [file] if file else FILES)
    names = [name for name in READ if os.path.isfile(os.path.join(folder, name))]
    if file or names == [VOCABULARY]:
        path = os.path.join(folder, file or VOCABULARY)
        try:
            return Tokenizer.of_words([line for _, line in files.lines(path)])
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if not {*names} & {*VOCABULARIES}:
        hint = "" if os.path.exists(path) else how_to_fetch(path)
        raise InputError(f"no tokenizer at {path!r}; set `tokenizer` to a Hugging Face directory or a vocab.txt{hint}")
    config_path, definition_path = (os.path.join(path, name) for name in (CONFIG, DEFINITION))
    config = read_json(config_path, ADVICE) if CONFIG in names else {}
    text = _definition(definition_path) if DEFINITION in names else ""

    # harp_jax wrote it, so that transformers reads the same.
    if DEFINITION in files.listed_sums(path):
        return _checked(path, text, {"model_input_names": [TOKEN_TYPES], **config}.get)

    # The copy of an earlier process. Its name has everything that it was made from.
    versions = [__version__, *(version(package) for package in ("transformers", "tokenizers"))]
    digests = [files.sha256_file(os.path.join(path, name)) for name in names]
    key, copy = hashlib.sha256(json.dumps([versions, names, digests]).encode()).hexdigest(), ""
    with contextlib.suppress(InputError, OSError):  # no home directory, or no copy that can be read
        copy = os.path.join(files.cache_directory("tokenizers"), f"{key}.json")
        return files.read_json_as(Tokenizer, copy)

    # transformers reads it.
    check_no_custom_code(config, config_path)
    theirs = read_tokenizer(path, json.loads(text)["model"]["type"] if text else "")
    if theirs.split_special_tokens:
        raise InputError(f"{config_path}: split_special_tokens is not supported; use another model")
    read = _definition(path, theirs.backend_tokenizer.to_str())
    text = text if text and _same_ids(text, read) else read
    tokenizer = _checked(path, text, lambda name: getattr(theirs, name, None))
    with contextlib.suppress(InputError, OSError), replacing(copy) as cached:  # unless there is no place to write to
        json.dump(asdict(tokenizer), cached)
    return tokenizer


def _checked(path: str, text: str, option: Callable[[str], Any]) -> Tokenizer:
    """The tokenizer with the tokenizer.json `text` and the options of tokenizer_config.json. InputError for what transformers
    accepts and a model here cannot use."""
    limit = option("model_max_length")
    # transformers writes 10^30 for an unknown length, other tools null.
    limit = int(min(limit, UNLIMITED)) if isinstance(limit, int | float) and limit > 0 else UNLIMITED
    roles = {role: token for role in ROLES if isinstance(token := option(f"{role}_token"), str)}
    tokenizer = Tokenizer(text, tuple(roles.items()), limit, TOKEN_TYPES in (option("model_input_names") or ()))
    size, ids = tokenizer.size, sorted(tokenizer.vocab.values())
    problems = {
        f"its vocabulary has {size} tokens": size <= len(SPECIAL_TOKENS),
        f"the ids of its {size} tokens are not 0 to {size - 1}": ids != [*range(size)],
        f"model_max_length in {CONFIG} is {limit}, but a pair needs {SHORTEST} tokens": limit < SHORTEST,
        f"the dropout of its model in {DEFINITION} makes ids random": bool(json.loads(text)["model"].get("dropout")),
        f"truncation_side and padding_side in {CONFIG} must be 'right': texts are truncated at their end": bool(
            {option("truncation_side"), option("padding_side")} - {"right", None}
        ),
    }
    for problem in (problem for problem, found in problems.items() if found):
        raise InputError(f"{path}: {problem}; {ADVICE}")
    return tokenizer


def _definition(path: str, text: str = "") -> str:
    """A tokenizer.json as `tokenizers` writes it, without truncation and padding; `text` instead of the file's, if given."""
    from tokenizers import Tokenizer as Encoder

    text = text or json.dumps(read_json(path, ADVICE))
    try:
        encoder = Encoder.from_str(text)
        encoder.no_truncation()
        encoder.no_padding()
        encoder.encode("ꙮ")  # fails if the token for unknown words is none of the vocabulary, or one of the template
        encoder.encode("a", "a")
        return encoder.to_str()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # tokenizers raises nothing more specific; its panics are not an Exception
        raise InputError(f"{path} is not a tokenizer ({str(error)[:200]}); {ADVICE}") from error


def _same_ids(ours: str, theirs: str) -> bool:
    """Whether the tokenizer.json of a directory encodes like that of transformers' backend, if only their spelling differs. The
    directory's is then used, since manifests of existing data record its hash."""
    from tokenizers import Tokenizer as Encoder

    parts = [json.loads(text) for text in (ours, theirs)]
    for each in parts:  # a missing prefix is null or ""
        each["model"] = {name: None if value == "" else value for name, value in each["model"].items()}
    if any(parts[0][name] != parts[1][name] for name in ("model", "added_tokens")):
        return False
    added = " ".join(token["content"] for token in parts[0]["added_tokens"])
    probes = ["", "  the  Cat,sat ", "it's  3.14\t\nTHE end\r\n\n", f"the {added}", "x" * 300]
    if any(parts[0][name] != parts[1][name] for name in ("normalizer", "pre_tokenizer")):
        letters = [chr(i) for i in (*range(0x20, 0xD800), *range(0xE000, 0x10000))]  # of 16 bits, without surrogates
        probes += ["  ".join(f"a{x}B {x}" for x in letters[i : i + 99]) for i in range(0, len(letters), 99)]
    encoded, expected = (Encoder.from_str(text).encode_batch(list(zip(probes, probes))) for text in (ours, theirs))
    return all((a.ids, a.offsets, a.type_ids) == (b.ids, b.offsets, b.type_ids) for a, b in zip(encoded, expected))


@dataclass(frozen=True)
class Marks:
    """Token ids before every query and every document, such as [Q] and [D] in coarse-tuning; -1: none. They are unused tokens of
    the vocabulary. A model trained with marks needs them at inference: configs and exports record them."""

    query: int = -1
    document: int = -1

    def on_query(self, ids: np.ndarray) -> np.ndarray:
        """ids: [n] int32 → [n + 1] with the mark, or [n] without one."""
        return ids if self.query < 0 else np.insert(ids, 0, self.query)

    def on_document(self, ids: np.ndarray) -> np.ndarray:
        """As `on_query`."""
        return ids if self.document < 0 else np.insert(ids, 0, self.document)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(i for i in (self.query, self.document) if i >= 0)


MARKS = "harp_jax_marks"  # key in config.json of an export with marks
NO_MARKS = Marks()


def marks_of(tokenizer: Tokenizer, tokens: Sequence[str]) -> Marks:
    """The marks for two tokens ("" for none), or for (). InputError for an unknown token, or another number."""
    if len(tokens) not in (0, 2) or not all(
        isinstance(token, str) and token in {"", *tokenizer.vocab} for token in tokens
    ):
        advice = "name two of the vocabulary's [unused…] tokens, one for queries and one for documents, or none: ()"
        raise InputError(f"marks={tuple(tokens)!r} are not two tokens of the vocabulary; {advice}")
    return Marks(*(tokenizer.vocab[token] if token else -1 for token in tokens))


def recorded_marks(directory: str, tokenizer: Tokenizer) -> Marks:
    """The marks that a training workdir or an export was trained with."""
    path = os.path.join(directory, "config.json")
    config = read_json(path) if os.path.exists(path) else {}
    marks = config.get(MARKS) or config.get("marks") or []
    return marks_of(tokenizer, marks if isinstance(marks, list) else [marks, ""])


# What transformers reads of the directories of others: local files only, no custom code. Its import takes 1 s, and 3 s with torch.


def check_no_custom_code(fields: dict[str, Any], path: str) -> None:
    """InputError if a config names classes in the directory's own Python files, or too many labels for the memory."""
    if fields.get("auto_map"):
        raise InputError(f"{path} needs custom code (auto_map), which is not executed here; use another model")
    if isinstance(labels := fields.get("num_labels"), int) and labels > MOST_LABELS:
        raise InputError(f"{path}: num_labels is {labels}, more than {MOST_LABELS:,}; {ADVICE}")


def read_tokenizer(directory: str, model: str = "") -> "PreTrainedTokenizerFast":
    """What AutoTokenizer returns, whose `backend_tokenizer` encodes texts. transformers 5 reads any vocabulary next to a BERT's
    config.json as WordPiece: if tokenizer.json has another kind of `model`, that file is read unchanged. InputError for a tokenizer
    without such a backend."""
    with _reading(directory):
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        if tokenizer.is_fast and model and type(tokenizer.backend_tokenizer.model).__name__ != model:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"{directory}: a {type(tokenizer).__name__} has no fast version; use another model")
    return tokenizer


def read_model_config(directory: str) -> dict[str, Any]:
    """The fields of config.json with the defaults and the current spelling of the model type's class."""
    with _reading(directory):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False).to_dict()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences transformers' warnings, which nobody can act upon."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that torch is missing
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@contextlib.contextmanager
def _reading(directory: str) -> Iterator[None]:
    """Raises transformers' errors, which have many classes, as InputError in one line."""
    try:
        with quiet():
            yield
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"transformers cannot read {directory} ({said}); {ADVICE}") from error
