"""Trains an uncased vocabulary that depends on the text alone, WordPiece or Unigram.

`WordPieceTrainer` breaks ties by ids that it assigns in the order of a randomly seeded hash map. Here the characters and their ##
forms get sorted ids first, so the same text always gives the same vocabulary. `UnigramTrainer` sums probabilities in such an order,
so scores are rounded and pieces sorted by score. Unigram (as XLM-R's, lower-cased) finds words in scripts without spaces, where
WordPiece splits Chinese into single characters and takes a Japanese sentence in Kana as one word.

Accents are removed only in English: elsewhere they distinguish words (German schon and schön, Japanese は and ば).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from data_pipeline.config import language, plain_source
from data_pipeline.output.claim import once_for_config
from data_pipeline.sources import formats
from data_pipeline.sources.document import Source
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.text.languages import ENGLISH, UNSPACED, primary
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer

ALPHABET = 1000  # characters at most, as in BERT; rarer ones become [UNK]
MANY_CHARACTERS = UNSPACED | {"ko"}  # languages with more characters than that: at most half of the vocabulary
MIN_FREQUENCY = 2
# Characters of a Unigram piece at most. With SentencePiece's 16, whole phrases of a small Japanese wiki became pieces, and a small
# ranker trained on them was certainly worse (docs/lab/languages.md).
LONGEST = 16
LONGEST_OF = {"ja": 4, "zh": 4}
KINDS = ("wordpiece", "unigram")


@dataclass(frozen=True)
class Vocabulary:
    """A trained vocabulary: "wordpiece" or "unigram", its language and how that was found, its tokens and sha256."""

    kind: str
    language: str
    language_from: str
    tokens: int
    sha256: str


@once_for_config
def write_vocabulary(config: ConfigDict, output: str, kind: str = "auto", size: int = 8000) -> Vocabulary:
    """Trains a vocabulary of at most `size` tokens on the documents of `config.source`; writes the tokenizer to `output`.

    kind "auto": unigram for languages without spaces between words, else wordpiece. Raises InputError for bad input.
    """
    source = plain_source(config)
    tag, origin = language(config, source)
    if kind == "auto":
        kind = "unigram" if primary(tag) in UNSPACED else "wordpiece"
    texts = partial(paragraphs, source)
    tokenizer = train_unigram(texts(), size, tag) if kind == "unigram" else train(texts, size, tag)
    tokenizer.save(output)
    return Vocabulary(kind, tag, origin, tokenizer.size, tokenizer.sha256)


def train(texts: Callable[[], Iterable[str]], size: int, tag: str = ENGLISH) -> Tokenizer:
    """A vocabulary of at most `size` tokens, the five special ones included, from all strings of `texts()`, in the language `tag`.

    Calls `texts` three times: for the characters, their ## forms, and the merges. Holds the counts of all distinct words.
    Raises InputError if there is no text, or more characters than `size` allows.
    """
    accents = None if primary(tag) == ENGLISH else False
    empty = partial(_empty, accents)
    normalise = empty().normalizer.normalize_str
    most = (size - len(SPECIAL_TOKENS)) // 2 if primary(tag) in MANY_CHARACTERS else ALPHABET
    alphabet = sorted(_most_frequent(map(normalise, texts()), most))
    if not alphabet:
        raise InputError("there is no text to train a vocabulary on; check config.source")

    def trained(first: list[str], size: int) -> list[str]:
        trainer = empty()
        trainer.train_from_iterator(
            texts(), vocab_size=size, min_frequency=MIN_FREQUENCY, special_tokens=[*SPECIAL_TOKENS, *first],
            initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False,
        )  # fmt: skip
        return list(trainer.get_vocab())

    # With size 0 there are no merges: only the characters and the ## forms that occur.
    forms = sorted(set(trained([], 0)) - set(SPECIAL_TOKENS))
    if len(forms) + len(SPECIAL_TOKENS) > size:
        raise InputError(
            f"a vocabulary of {size} tokens cannot hold the {len(forms)} characters and ## forms of the text; raise the size"
        )
    tokens = trained(forms, size)
    return Tokenizer.of_words((*SPECIAL_TOKENS, *sorted(set(tokens) - set(SPECIAL_TOKENS))), strip_accents=accents)


def _most_frequent(texts: Iterable[str], count: int | None) -> list[str]:
    """The `count` most frequent characters (None: all), without white space."""
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    return [character for character, _ in ranked[:count] if not character.isspace()]


def train_unigram(texts: Iterable[str], size: int, tag: str = ENGLISH) -> Tokenizer:
    """A vocabulary of at most `size` pieces for the language `tag`, with the five special ones and single characters.

    Keeps the most frequent characters: ALPHABET, or three quarters of `size` if that is more. Reads all text into memory. Raises
    InputError if there is no text, or more characters than `size` allows.
    """
    from tokenizers import Tokenizer as Encoder
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    def encoder(model: models.Model) -> Encoder:
        made = Encoder(model)
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        return made

    trained = encoder(models.Unigram())
    names = dict(cls="<s>", pad="<pad>", sep="</s>", unk="<unk>", mask="<mask>")
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=list(names.values()),
        unk_token=names["unk"],
        max_piece_length=LONGEST_OF.get(primary(tag), LONGEST),
        show_progress=False,
    )
    lines = [text for text in texts if not text.isspace()]
    rare = dict.fromkeys(map(ord, _most_frequent(lines, None)[max(ALPHABET, 3 * size // 4) :]), " ")
    lines = [line.translate(rare) for line in lines] if rare else lines
    if not lines:
        raise InputError("there is no text to train a vocabulary on; check config.source")
    try:
        trained.train_from_iterator(lines, trainer)
    except Exception as error:  # tokenizers raises nothing more specific
        raise InputError(f"a vocabulary of {size} tokens: {error}; raise the size") from error
    pieces = json.loads(trained.to_str())["model"]["vocab"][len(names) :]
    # Characters that no piece needed score .0001 above each other, from the lowest score on, in the order of a hash map.
    lowest = min((score for _, score in pieces), default=0.0)
    unordered = lowest + 1e-4 * sum(len(piece) == 1 for piece, _ in pieces)
    rounded = ((piece, round(lowest if len(piece) == 1 and score < unordered else score, 5)) for piece, score in pieces)
    scored = sorted(rounded, key=lambda each: (-each[1], each[0]))
    made = encoder(models.Unigram([*((name, 0.0) for name in names.values()), *scored], unk_id=3))
    made.add_special_tokens(list(names.values()))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return Tokenizer(made.to_str(), tuple(names.items()))


def _empty(strip_accents: bool | None) -> "BertWordPieceTokenizer":
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(lowercase=True, strip_accents=strip_accents)


def paragraphs(source: Source) -> Iterator[str]:
    """The paragraphs of all documents, with a progress bar."""
    with progress(unit="documents", desc="read") as bar:
        for chunk in formats.chunks(source):
            for document in formats.parse(chunk, source)[0]:
                bar.update()
                yield from filter(None, document.text.split("\n"))
