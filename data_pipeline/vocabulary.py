"""Trains an uncased WordPiece vocabulary from the documents of a generation config.

python -m data_pipeline.vocabulary --config=configs/data/FILE.py --output=DIR [--size=8000]

The result is an artefact, named by its content. `WordPieceTrainer` breaks ties by ids that it gives out in the order of a
randomly seeded hash map; here the characters and their ## forms get sorted ids first, which leaves nothing to chance.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from data_pipeline.config import plain
from data_pipeline.sources import formats
from harp_jax.cli import ConfigParser, run
from harp_jax.errors import InputError
from harp_jax.progress import progress
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

ALPHABET = 1000  # characters at most, as in BERT; rarer ones become [UNK]
MIN_FREQUENCY = 2


def texts(source: dict[str, Any]) -> Iterator[str]:
    """The text of every document, paragraph by paragraph."""
    with progress(unit="documents", desc="read") as bar:
        for chunk in formats.chunks(source):
            for document in formats.parse(chunk, source)[0]:
                bar.update()
                yield from filter(None, document.text.split("\n"))


def train(source: dict[str, Any], size: int) -> Tokenizer:
    """Reads the source three times: characters, their ## forms, merges. Holds the counts of its distinct words.

    Raises InputError where the text has too few words for a vocabulary of that size.
    """
    characters: Counter[str] = Counter()
    normalise = _empty().normalizer.normalize_str
    for text in texts(source):
        characters.update(normalise(text))
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    alphabet = sorted(c for c, _ in ranked[:ALPHABET] if not c.isspace())
    if not alphabet:
        raise InputError("the source has no text to train a vocabulary on; see config.source")
    # A vocabulary of no size has no merges: what comes out is the characters and the ## forms that occur.
    forms = sorted(set(_run(source, [], alphabet, 0)) - set(SPECIAL_TOKENS))
    if len(forms) + len(SPECIAL_TOKENS) > size:
        raise InputError(f"--size={size} is less than the {len(forms)} single characters of the text; raise it")
    tokens = _run(source, forms, alphabet, size)
    return Tokenizer((*SPECIAL_TOKENS, *sorted(set(tokens) - set(SPECIAL_TOKENS))))


def _empty() -> Any:
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(lowercase=True)


def _run(source: dict[str, Any], first: list[str], alphabet: list[str], size: int) -> list[str]:
    trainer = _empty()
    trainer.train_from_iterator(
        texts(source),
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=[*SPECIAL_TOKENS, *first],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    return list(trainer.get_vocab())


def main(args: Any) -> None:
    if args.config is None or not args.output:
        raise InputError("--config=FILE.py and --output=DIR are both needed; see configs/data/")
    with args.config.unlocked():
        args.config.encoder = args.config.encoder or "uniform"
    tokenizer = train(plain(args.config)["source"], args.size)
    tokenizer.save(args.output)
    print(f"{args.output}: {tokenizer.size} tokens, sha256 {tokenizer.sha256}")


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp vocabulary",
        description="Train an uncased WordPiece vocabulary from the documents that a generation config reads.",
        example="harp vocabulary --config=configs/data/html.py --config.source.paths=\"('site/',)\" --output=vocabulary",
    )
    parser.add_argument("--output", help="directory for vocab.txt, tokenizer.json and tokenizer_config.json")
    parser.add_argument("--size", type=int, default=8000, help="tokens, the five special ones included (8000)")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
