"""Mutated inputs to a reader: only `InputError` may come out. The inputs are the same in every run."""

import logging
import os
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from harp_jax.errors import InputError
from tests.support.mutations import EDITS, Edit, mutated
from tests.support.readers import READERS, Reader


def fuzz(reader: Reader, directory: Path, inputs: int) -> None:
    """Reads the valid input, then `inputs` mutations of it. hypothesis reports a failure with the fewest edits that cause it."""
    directory.mkdir(exist_ok=True)
    valid = reader.write(directory)
    names = sorted(valid)
    reader.read(directory)

    @settings(
        max_examples=inputs,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(EDITS)
    def check(edits: list[Edit]) -> None:
        name = names[edits[0][2] % len(names)]
        replace(directory / name, mutated(valid[name], edits))
        try:
            if reader.seal is not None:
                reader.seal(directory)
            reader.read(directory)
        except InputError as error:
            assert str(error).strip()
        finally:
            replace(directory / name, valid[name])

    check()


def replace(path: Path, content: bytes) -> None:
    """A new file, so that nothing is taken for unchanged by its inode; the reader may have removed the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.remove(path)
    path.write_bytes(content)


def attempt(name: str, directory: str, inputs: int) -> str:
    """`fuzz` in a process of its own: the report of a failure, or nothing."""
    logging.disable(logging.CRITICAL)
    reader = READERS[name]
    try:
        fuzz(reader, Path(directory), max(1, int(reader.share * inputs)))
    except BaseException:
        return traceback.format_exc()
    return ""
