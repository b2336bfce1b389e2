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

from ml_collections import ConfigDict

from data_pipeline.config import language, validated_source
from data_pipeline.output.claim import once_for_config
from data_pipeline.sources import formats
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.text.languages import ENGLISH, UNSPACED, primary
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

ALPHABET = 1000  # characters at most, as in BERT; rarer ones become [UNK]
MANY_CHARACTERS = UNSPACED | {"ko"}  # languages with more characters than that: at most half of the vocabulary
MIN_FREQUENCY = 2
# Characters of a Unigram piece at most. With SentencePiece's 16, whole phrases of a small Japanese wiki become pieces.
LONGEST = 16
LONGEST_OF = {"ja": 4, "zh": 4}
KINDS = ("wordpiece", "unigram")
NO_TEXT = "there is no text to train a vocabulary on; check config.source"


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
    """Trains a vocabulary of at most `size` tokens on the documents of `config.source`; writes the tokenizer to `output`. kind
    "auto": unigram for languages without spaces between words, else wordpiece. Raises InputError for bad input."""
    source = validated_source(config)
    tag, origin = language(config, source)
    if kind == "auto":
        kind = "unigram" if primary(tag) in UNSPACED else "wordpiece"

    def paragraphs() -> Iterator[str]:
        documents = (document for chunk in formats.chunks(source) for document in formats.parse(chunk, source)[0])
        with progress(documents, unit="documents", desc="read") as bar:
            for document in bar:
                yield from filter(None, document.text.split("\n"))

    made = train_unigram(paragraphs(), size, tag) if kind == "unigram" else train(paragraphs, size, tag)
    made.save(output)
    return Vocabulary(kind, tag, origin, made.size, made.sha256)


def train(texts: Callable[[], Iterable[str]], size: int, tag: str = ENGLISH) -> Tokenizer:
    """A vocabulary of at most `size` tokens, the five special ones included, from all strings of `texts()`, in the language `tag`.
    Calls `texts` three times: for the characters, their ## forms, and the merges. Holds the counts of all distinct words. Raises
    InputError if there is no text, or more characters than `size` allows."""
    from tokenizers import BertWordPieceTokenizer

    accents = None if primary(tag) == ENGLISH else False
    empty = partial(BertWordPieceTokenizer, lowercase=True, strip_accents=accents)
    most = (size - len(SPECIAL_TOKENS)) // 2 if primary(tag) in MANY_CHARACTERS else ALPHABET
    alphabet = sorted(_by_frequency(map(empty().normalizer.normalize_str, texts()))[:most])
    alphabet = [character for character in alphabet if not character.isspace()]
    if not alphabet:
        raise InputError(NO_TEXT)

    def trained(first: list[str], size: int) -> list[str]:
        trainer = empty()
        trainer.train_from_iterator(
            texts(), vocab_size=size, min_frequency=MIN_FREQUENCY, special_tokens=[*SPECIAL_TOKENS, *first],
            initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False,
        )  # fmt: skip
        return sorted(set(trainer.get_vocab()) - set(SPECIAL_TOKENS))

    # With size 0 there are no merges: only the characters and the ## forms that occur.
    forms = trained([], 0)
    if len(forms) + len(SPECIAL_TOKENS) > size:
        what = f"the {len(forms)} characters and ## forms of the text"
        raise InputError(f"a vocabulary of {size} tokens cannot hold {what}; raise the size")
    return Tokenizer.of_words((*SPECIAL_TOKENS, *trained(forms, size)), strip_accents=accents)


def train_unigram(texts: Iterable[str], size: int, tag: str = ENGLISH) -> Tokenizer:
    """A vocabulary of at most `size` pieces for the language `tag`, with the five special ones and single characters. Keeps the
    most frequent characters: ALPHABET, or three quarters of `size` if that is more. Reads all text into memory. Raises InputError
    if there is no text, or more characters than `size` allows."""
    from tokenizers import Tokenizer as Encoder
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    def encoder(model: models.Model) -> Encoder:
        made = Encoder(model)
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        return made

    # The text without rare characters.
    lines = [text for text in texts if not text.isspace()]
    most = max(ALPHABET, 3 * size // 4)
    characters = [character for character in _by_frequency(lines) if not character.isspace()]
    rare = dict.fromkeys(map(ord, characters[most:]), " ")
    lines = [line.translate(rare) for line in lines] if rare else lines
    if not lines:
        raise InputError(NO_TEXT)

    trained = encoder(models.Unigram())
    names = dict(cls="<s>", pad="<pad>", sep="</s>", unk="<unk>", mask="<mask>")
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(names.values()), unk_token=names["unk"],
        max_piece_length=LONGEST_OF.get(primary(tag), LONGEST), show_progress=False,
    )  # fmt: skip
    try:
        trained.train_from_iterator(lines, trainer)
    except Exception as error:  # tokenizers raises nothing more specific
        raise InputError(f"a vocabulary of {size} tokens: {error}; raise the size") from error

    # Pieces by score. Characters that no piece needed score .0001 above each other, from the lowest score on, in random order: they
    # get the lowest score.
    pieces = json.loads(trained.to_str())["model"]["vocab"][len(names) :]
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


def _by_frequency(texts: Iterable[str]) -> list[str]:
    """All characters, the most frequent first."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts, key=lambda character: (-counts[character], character))
