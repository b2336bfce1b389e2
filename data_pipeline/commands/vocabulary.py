"""Train an uncased WordPiece vocabulary that depends on the text alone: `harp vocabulary`.

`WordPieceTrainer` breaks ties by ids that it assigns in the order of a randomly seeded hash map. Here the characters and their ##
forms get sorted ids first, so the same text always gives the same vocabulary.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from data_pipeline.config import plain_source
from data_pipeline.sources import formats
from data_pipeline.sources.document import Source
from harp_jax.base.cli import ConfigParser, positive
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer

ALPHABET = 1000  # characters at most, as in BERT; rarer ones become [UNK]
MIN_FREQUENCY = 2


def train(texts: Callable[[], Iterable[str]], size: int) -> Tokenizer:
    """A vocabulary of at most `size` tokens, the five special ones included, from all strings of `texts()`.

    Calls `texts` three times: for the characters, their ## forms, and the merges. Holds the counts of all distinct words.
    Raises InputError where there is no text, or more characters than `size` allows.
    """
    characters: Counter[str] = Counter()
    normalise = _empty().normalizer.normalize_str
    for text in texts():
        characters.update(normalise(text))
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    alphabet = sorted(c for c, _ in ranked[:ALPHABET] if not c.isspace())
    if not alphabet:
        raise InputError("there is no text to train a vocabulary on; check config.source")
    # With size 0 there are no merges: only the characters and the ## forms that occur.
    forms = sorted(set(_run(texts, [], alphabet, 0)) - set(SPECIAL_TOKENS))
    if len(forms) + len(SPECIAL_TOKENS) > size:
        raise InputError(
            f"a vocabulary of {size} tokens cannot hold the {len(forms)} characters and ## forms of the text; raise the size"
        )
    tokens = _run(texts, forms, alphabet, size)
    return Tokenizer.of_words((*SPECIAL_TOKENS, *sorted(set(tokens) - set(SPECIAL_TOKENS))))


def _empty() -> "BertWordPieceTokenizer":
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(lowercase=True)


def _run(texts: Callable[[], Iterable[str]], first: list[str], alphabet: list[str], size: int) -> list[str]:
    trainer = _empty()
    trainer.train_from_iterator(
        texts(),
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=[*SPECIAL_TOKENS, *first],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    return list(trainer.get_vocab())


def paragraphs(source: Source) -> Iterator[str]:
    """The paragraphs of all documents, with a progress bar."""
    with progress(unit="documents", desc="read") as bar:
        for chunk in formats.chunks(source):
            for document in formats.parse(chunk, source)[0]:
                bar.update()
                yield from filter(None, document.text.split("\n"))


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp vocabulary",
        description="Train an uncased WordPiece vocabulary from the documents that a generation config reads.",
        example="harp vocabulary --config=data/html --config.source.paths=\"('site/',)\" --output=vocabulary",
    )
    parser.add_output(
        "--output", required=True, help="directory for vocab.txt, tokenizer.json and tokenizer_config.json"
    )
    parser.add_argument("--size", type=positive, default=8000, help="tokens, the five special ones included (8000)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    tokenizer = train(partial(paragraphs, plain_source(arguments.config)), arguments.size)
    tokenizer.save(arguments.output)
    print(f"{arguments.output}: {tokenizer.size} tokens, sha256 {tokenizer.sha256}")
