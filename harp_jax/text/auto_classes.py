"""What `transformers` reads of a Hugging Face directory: its tokenizer and its config. Local files only, no custom code.

The import takes 1 s, and 3 s where torch is installed, so nothing here is called for directories that harp_jax wrote.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ADVICE = "write or download it again"


MOST_LABELS = 10_000  # transformers names each one


def check_no_custom_code(fields: dict[str, Any], path: str) -> None:
    """InputError if a config names classes in the directory's own Python files, or too many labels for the memory."""
    if fields.get("auto_map"):
        raise InputError(f"{path} needs custom code (auto_map), which is not executed here; use another model")
    if isinstance(labels := fields.get("num_labels"), int) and labels > MOST_LABELS:
        raise InputError(f"{path}: num_labels is {labels}, more than {MOST_LABELS:,}; {ADVICE}")


def read_tokenizer(directory: str, model: str = "") -> "PreTrainedTokenizerFast":
    """What AutoTokenizer returns, whose `backend_tokenizer` encodes texts. `model`: the kind of model in tokenizer.json, if any.
    transformers 5 reads any vocabulary next to a BERT's config.json as WordPiece. If that is not its kind, tokenizer.json is read
    unchanged, as by transformers 4. InputError for a tokenizer without such a backend."""
    with _reading(directory):
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        if tokenizer.is_fast and model and type(tokenizer.backend_tokenizer.model).__name__ != model:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(directory, local_files_only=True)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"{directory}: a {type(tokenizer).__name__} has no fast version; use another model")
    return tokenizer


def read_config(directory: str) -> dict[str, Any]:
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
