"""Mutated inputs to a reader: only `InputError` may come out. The inputs are the same in every run."""

import logging
import os
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from harp_jax.base.errors import InputError
from tests.support.mutations import Edit, edits_of, mutated
from tests.support.readers import READERS, Reader


def fuzz(name: str, directory: Path, inputs: int) -> None:
    """Reads the valid input of a reader, then `inputs` mutations of it. A failure names the edits that cause it."""
    reader = READERS[name]
    directory.mkdir(exist_ok=True)
    valid = reader.write(directory)
    files = sorted(valid)
    reader.read(directory)
    for number in range(inputs):
        edits = edits_of(f"{name} {number}")
        try:
            read_mutated(reader, directory, valid, files[number % len(files)], edits)
        except Exception as error:
            raise AssertionError(f"{name}: {files[number % len(files)]} with the edits {edits}: {error!r}") from error


def read_mutated(reader: Reader, directory: Path, valid: Mapping[str, bytes], file: str, edits: Sequence[Edit]) -> None:
    """Reads the input with one file mutated, which is restored."""
    replace(directory / file, mutated(valid[file], edits))
    try:
        reader.read(directory)
    except InputError as error:
        assert str(error).strip()
    finally:
        replace(directory / file, valid[file])


def replace(path: Path, content: bytes) -> None:
    """A new file, so that nothing is taken for unchanged by its inode; the reader may have removed the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.remove(path)
    path.write_bytes(content)


def attempt(name: str, directory: str, inputs: int) -> str:
    """`fuzz` in a process of its own: the report of a failure, or nothing."""
    logging.disable(logging.CRITICAL)
    try:
        fuzz(name, Path(directory), inputs)
    except BaseException:
        return traceback.format_exc()
    return ""
