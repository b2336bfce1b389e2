"""SHA256SUMS: the files that a command wrote to a folder, with their digests, as `sha256sum -c` reads it.

Weights, config and vocabulary that do not belong together may still load and score; the file binds them. A folder without it, such
as one that another tool wrote, is not checked when it is read, and never replaced.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, replacing, replacing_folder, sha256_file

SUMS = "SHA256SUMS"
CARD = "README.md"  # listed, but people may edit it


def files_below(directory: str) -> list[str]:
    """The paths of all files below a directory, relative to it, sorted."""
    found = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return sorted(os.path.relpath(path, directory) for path in found)


def write_sums(directory: str, names: Iterable[str] | None = None) -> None:
    """Writes SHA256SUMS for these files of a directory; None: all of them."""
    given = files_below(directory) if names is None else sorted(names)
    found = {name: sha256_file(os.path.join(directory, name)) for name in given if name != SUMS}
    with replacing(os.path.join(directory, SUMS)) as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in found.items())


@contextlib.contextmanager
def output_folder(directory: str) -> Iterator[str]:
    """A new folder that gets its SHA256SUMS and replaces `directory` if the block ends without an exception (`replacing_folder`).

    InputError unless `check_replaceable` allows that.
    """
    check_replaceable(directory)
    with replacing_folder(directory) as folder:
        yield folder
        write_sums(folder)


def check_replaceable(directory: str) -> None:
    """InputError unless `directory` is absent, empty, or holds only files that its SHA256SUMS lists, unchanged."""
    if not directory:
        raise InputError("the path of the output is empty (unset variable?); name a directory")
    if not os.path.isdir(directory):
        if os.path.lexists(directory):
            raise InputError(f"{directory} is no directory; choose another --output or remove it")
        return
    held, listed = files_below(directory), listed_sums(directory)
    for name in held:
        if name != SUMS and listed.get(name) != sha256_file(os.path.join(directory, name)):
            raise InputError(
                f"{directory} holds {name}, which was changed or is not of harp_jax (by {SUMS}) and would be lost; "
                "move it away or choose another --output"
            )


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

    `names`: of those that are listed; None: all of them but the card and those in folders, which only some readers need.
    """
    listed = listed_sums(directory)
    chosen = [name for name in listed if "/" not in name and name != CARD] if names is None else set(names)
    for name in listed.keys() & chosen:
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
