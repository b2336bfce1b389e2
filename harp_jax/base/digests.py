"""Digests of the files of a model, kept next to them in SHA256SUMS (as `sha256sum -c` reads it) and checked before loading.

Weights, config and vocabulary that do not belong together may still load and score; the file binds them. A directory without
it, such as one that another tool wrote, is not checked.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, replacing, sha256_file

SUMS = "SHA256SUMS"
LINE = "# sha256 "  # begins the last line of `with_digest`


def with_digest(text: str) -> str:
    """A text of whole lines, followed by a line with its digest."""
    return f"{text}{LINE}{hashlib.sha256(text.encode()).hexdigest()}\n"


def without_digest(data: bytes) -> str | None:
    """The text of a file of `with_digest`; None if it was changed or truncated."""
    text, _, digest = data.rpartition(LINE.encode())
    return text.decode() if digest == f"{hashlib.sha256(text).hexdigest()}\n".encode() else None


def write_sums(directory: str, names: Iterable[str]) -> None:
    """Writes SHA256SUMS for these files of a directory."""
    found = {name: sha256_file(os.path.join(directory, name)) for name in sorted(names)}
    with replacing(os.path.join(directory, SUMS)) as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in found.items())


def remove_sums(directory: str) -> None:
    """Removes SHA256SUMS before the files change, so that a kill in between leaves no wrong digests."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(directory, SUMS))


def listed_sums(directory: str) -> dict[str, str]:
    """Name → sha256 of the directory's SHA256SUMS; empty without one. InputError for a damaged one."""
    path = os.path.join(directory, SUMS)
    listed: dict[str, str] = {}
    for number, line in lines(path) if os.path.exists(path) else ():
        digest, separator, name = line.partition("  ")
        if not separator or len(digest) != 64 or name.startswith("/") or ".." in name.split("/"):
            raise InputError(f"{path}, line {number}: not 'sha256  name'; restore the file or write the model again")
        listed[name] = digest
    return listed


def check_sums(directory: str, names: Iterable[str] | None = None) -> None:
    """Raises InputError for the first of the files that is missing or was changed since.

    `names`: of those that are listed; None: all of them but those in folders, which only some readers need.
    """
    listed = listed_sums(directory)
    for name in [name for name in listed if "/" not in name] if names is None else listed.keys() & set(names):
        file = os.path.join(directory, name)
        if not os.path.exists(file):
            raise InputError(f"{file} is missing, which {SUMS} lists; copy or write the model again")
        if sha256_file(file) != listed[name]:
            raise InputError(
                f"{file} was changed since it was written (its sha256 is not that of {SUMS}); copy or write the model again, "
                f"or remove {SUMS} if the change was intended"
            )


def intact(directory: str) -> bool:
    """Whether the directory has digests, and its files are what was written."""
    try:
        check_sums(directory)
        return bool(listed_sums(directory))
    except InputError:
        return False
