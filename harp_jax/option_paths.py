"""The files and folders that the options of a command name: inputs exist, outputs replace none of them."""

import argparse
import os
import re
from collections.abc import Iterator

from harp_jax.digests import SUMS, listed_sums
from harp_jax.errors import InputError, how_to_fetch
from harp_jax.files import check_plain, output_path

OUTPUTS = ("output", "per_query", "snakefile", "markdown", "text")  # options that name what a command writes
# Files of models, workdirs and vocabularies that their SHA256SUMS does not list.
PARTS = (SUMS, "README.md", "config.json", "metrics.jsonl", "selection.json", "words.tsv", "words.json", "vocab.txt")
# Options that name files and folders which a command reads: paths, or NAME=PATH,PATH.
INPUTS = (
    "model", "encoder", "start", "docs", "pages", "queries", "qrels", "run", "runs", "folds", "exclude", "anchors", "parameters",
    "links", "redirects", "clicks", "words", "train_queries", "test_queries", "leave_out", "curves",
)  # fmt: skip


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raises InputError if an output option names a file that another argument reads: it would be lost."""
    given = {name: value for name, value in vars(arguments).items() if value and name not in OUTPUTS}
    words = [word for value in given.values() for word in (value if isinstance(value, list) else [value])]
    # NAME=PATH,PATH of some options; the whole word too, since paths may contain both characters.
    texts = [word for word in words if isinstance(word, str)]
    inputs = [part for word in texts for part in (word, *re.split("[=,]", word))]
    folders = [path for path in named_inputs(arguments) if os.path.isdir(path)]
    for name in OUTPUTS:
        output = getattr(arguments, name, None)
        if output and os.path.isdir(output):
            same = [folder for folder in folders if os.path.samefile(folder, output)]
        elif output:
            check_plain(output)
            output_path(output, inputs)
            same = [folder for folder in folders if os.path.exists(output) and holds_part(folder, output)]
        if output and same:
            raise InputError(
                f"cannot write {output}: it is of the input {same[0]}, which would be lost; choose another path"
            )


def named_inputs(arguments: argparse.Namespace) -> Iterator[str]:
    """The paths that options of INPUTS name."""
    for name in INPUTS:
        given = getattr(arguments, name, None) or []
        for word in given if isinstance(given, list) else [given]:
            yield from (str(word), *re.split("[=,]", str(word)))


def holds_part(folder: str, path: str) -> bool:
    """Whether the file is a part of the model, workdir or vocabulary in the folder."""
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    return name in PARTS or name in listed_sums(folder)


def check_inputs(arguments: argparse.Namespace) -> None:
    """Raises InputError with all inputs that do not exist where there are several; a single one is named by what reads it."""
    missing: list[str] = []
    hint = ""
    for name in INPUTS:
        given = getattr(arguments, name, None) or []
        for word in given if isinstance(given, list) else [given]:
            for path in absent(str(word)):
                missing.append(path if name in ("runs", "pages") else f"--{name}={path}")
                hint = hint or (how_to_fetch(path) if name in ("model", "encoder", "start") else "")
    if len(missing) > 1:
        raise InputError(f"these inputs do not exist: {', '.join(missing)}; check the paths{hint}")


def absent(text: str) -> list[str]:
    """The paths of PATH, PATH,PATH or NAME=PATH,PATH that do not exist. Ids of ir_datasets, URLs and globs are not checked."""
    if os.path.exists(text):
        return []
    paths = text.rpartition("=")[2].split(",")
    return [path for path in paths if not (os.path.exists(path) or re.search(r"^irds:|://|[*?\[]", path))]
