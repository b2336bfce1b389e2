"""The one exception for bad input: what is wrong, where, and what to do about it."""

import contextlib
from collections.abc import Iterator


class InputError(Exception):
    """Bad input or usage that the user must fix; commands print it in one line and exit with status 2."""


@contextlib.contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Around the import of an optional package. Raises InputError with the extra that installs it."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{what} needs the package {package}; install harp_jax[{extra}]") from error
