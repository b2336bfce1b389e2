"""The exception for bad input: what is wrong, where, and what to do about it; and one for work that SIGTERM ended."""

import contextlib
import re
from collections.abc import Iterator

HUB_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*/?")


class InputError(Exception):
    """Bad input or usage that the user must fix; commands print it in one line and exit with status 2."""


@contextlib.contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Around the import of an optional package. Raises InputError with the extra that installs it."""
    try:
        yield
    except ImportError as error:
        raise missing(what, package, extra) from error


def missing(what: str, package: str, extra: str) -> InputError:
    """The error for an optional package that is not installed. harp_jax itself is on no index: it is installed from a checkout."""
    return InputError(f"{what} needs the package {package}; in the checkout of harp_jax: pip install '.[{extra}]'")


def how_to_fetch(path: str) -> str:
    """The end of a message about a missing model: how to download it if `path` may be an id of the Hub; else ""."""
    if not HUB_ID.fullmatch(path):
        return ""
    name = path.rstrip("/")
    folder = name.rpartition("/")[2]
    return f"; to use a model from the Hugging Face Hub, run `hf download {name} --local-dir {folder}` and name the folder {folder}"


class Terminated(InputError):
    """SIGTERM ended the work, which can resume; commands print it in one line and exit with status 143."""
