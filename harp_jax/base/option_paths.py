"""The files and folders that the options of a command name: inputs exist, outputs replace none of them."""

import argparse
import os
import re
from collections.abc import Iterator

from harp_jax.base.digests import SUMS, listed_sums
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_plain, output_path

OUTPUTS = ("output", "per_query", "snakefile", "markdown", "text")  # options that name what a command writes
# Files of models, workdirs and vocabularies that their SHA256SUMS does not list.
PARTS = (SUMS, "README.md", "config.json", "metrics.jsonl", "selection.json", "words.tsv", "words.json", "vocab.txt")
DOCUMENTS = (".tsv", ".jsonl", ".json")  # of a folder of documents
# Options that name files and folders which a command reads: paths, or NAME=PATH,PATH.
INPUTS = (
    "model", "encoder", "start", "docs", "pages", "queries", "qrels", "run", "runs", "folds", "exclude", "anchors", "parameters",
    "links", "redirects", "clicks", "words", "train_queries", "test_queries", "leave_out", "curves",
)  # fmt: skip


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raises InputError if an output option names a file that another argument reads or writes: it would be lost."""
    given = {name: value for name, value in vars(arguments).items() if value and name not in OUTPUTS}
    words = [word for value in given.values() for word in (value if isinstance(value, list) else [value])]
    # NAME=PATH,PATH of some options; the whole word too, since paths may contain both characters.
    texts = [word for word in words if isinstance(word, str)]
    inputs = [part for word in texts for part in (word, *re.split("[=,]", word))]
    folders = [(name, path) for name, path in named_inputs(arguments) if os.path.isdir(path)]
    written: dict[str, str] = {}
    for name in OUTPUTS:
        output = getattr(arguments, name, None)
        if not output:
            continue
        other = written.setdefault(os.path.realpath(output), name)
        if other != name:
            raise InputError(f"--{name} and --{other} are both {output}, and one would be lost; choose two paths")
        if not os.path.isdir(output):
            check_plain(output)
            output_path(output, inputs)
        for option, folder in folders:
            if is_part(output, folder, DOCUMENTS if option == "docs" else ()):
                raise InputError(
                    f"cannot write {output}: it is of the input {folder}, which would be lost; choose another path"
                )


def named_inputs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(option, path) of the paths that options of INPUTS name."""
    for name in INPUTS:
        given = getattr(arguments, name, None) or []
        for word in given if isinstance(given, list) else [given]:
            yield from ((name, path) for path in (str(word), *re.split("[=,]", str(word))))


def is_part(path: str, folder: str, suffixes: tuple[str, ...] = ()) -> bool:
    """Whether a path that exists is the folder, or a file of the model, workdir or vocabulary in it, or there with a suffix."""
    if not os.path.exists(path):
        return False
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    if name in (".", *PARTS) or (not name.startswith("..") and name.endswith(suffixes)):
        return True
    try:
        return name in listed_sums(folder)
    except InputError:  # SHA256SUMS of another tool
        return False


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
