"""Builds the tokenizer.json of BERT's tokenizer (WordPiece) from a vocabulary."""

from collections.abc import Sequence

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
CLASSES = (
    "BertTokenizer",
    "BertTokenizerFast",
)  # of transformers
OPTIONS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
}  # defaults in tokenizer_config.json


def definition(
    tokens: Sequence[str],
    do_lower_case: bool | None = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool | None = True,
) -> str:
    """A tokenizer.json as text. strip_accents None: same as do_lower_case."""
    from tokenizers import BertWordPieceTokenizer

    made = BertWordPieceTokenizer(
        {token: i for i, token in enumerate(tokens)},
        lowercase=bool(do_lower_case),
        strip_accents=strip_accents,
        handle_chinese_chars=bool(tokenize_chinese_chars),
    )
    return made.to_str()


def options_of(normalizer: dict) -> dict[str, bool | None]:
    """OPTIONS from the normalizer in a tokenizer.json."""
    names = ("lowercase", "strip_accents", "handle_chinese_chars")
    return {option: normalizer[name] for option, name in zip(OPTIONS, names)}
