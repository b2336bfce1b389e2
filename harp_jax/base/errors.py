"""Exceptions for bad input (what is wrong, where, what to do about it), and for work that SIGTERM ended."""

import contextlib
import os
import re
from collections.abc import Iterator
from numbers import Integral

HUB_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*/?")


class InputError(Exception):
    """Bad input or usage that the user must fix; commands print it in one line and exit with status 2."""


@contextlib.contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Wraps the import of an optional package. InputError, if it is missing, names the extra that installs it."""
    try:
        yield
    except ImportError as error:
        raise missing(what, package, extra) from error


def missing(what: str, package: str, extra: str) -> InputError:
    """The error for an optional package that is not installed. harp_jax is not on an index: it is installed from a checkout."""
    return InputError(f"{what} needs the package {package}; in the checkout of harp_jax: pip install '.[{extra}]'")


def how_to_fetch(path: str) -> str:
    """How to download a missing model, as the end of a message, if `path` may be a Hub id; else ""."""
    if not HUB_ID.fullmatch(path):
        return ""
    name = path.rstrip("/")
    folder = name.rpartition("/")[2]
    return f"; to use a model from the Hugging Face Hub, run `hf download {name} --local-dir {folder}` and name the folder {folder}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its class, for a message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def at_least(least: int, **numbers: int | None) -> None:
    """Raises InputError, with its name, for an argument that is not whole or below `least`; None means the default, or all."""
    for name, number in numbers.items():
        if number is not None and (not isinstance(number, Integral) or number < least):
            raise InputError(f"{name}={number!r}: use {least} or more, a whole number")


def named(folder: str | os.PathLike[str]) -> str:
    """The path of a directory as text. InputError for what is none, and for an empty one, which would mean the current folder."""
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"{folder!r} is not the path of a directory; name one")
    if not os.fspath(folder):
        raise InputError("the directory's path is empty; name one")
    return os.fspath(folder)


class Terminated(InputError):
    """SIGTERM ended the work, which can resume; commands print it in one line and exit with status 143."""
