"""Pages as a collection: a folder of HTML, a WARC file or a MediaWiki dump stands for the documents that `harp documents` writes.

They are written once, by a process of that command (this package never imports data_pipeline), into the user's cache, and again
when a file of the pages changes. The ids are those of the command without --base_url: for ids with the URL of your site, or to
keep the documents, run `harp documents` yourself and name its output.
"""

import hashlib
import itertools
import lzma
import os
import re
import subprocess
import sys
import zlib

from harp_jax.base.cli import child, child_environment
from harp_jax.base.errors import InputError
from harp_jax.base.files import beside, cache_directory, open_bytes, walk
from harp_jax.base.version import __version__

_SUFFIXES = (".html", ".htm", ".xhtml", ".warc", ".warc.gz")
_LOOKED_AT = 1000  # files of a folder
_PAGES = re.compile(rb"WARC/1|\s*<mediawiki[\s>]|\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)


def are_pages(path: str) -> bool:
    """Is `path` a file of pages by its content, or a folder with such files by their names?"""
    if os.path.isdir(path):
        return any(name.lower().endswith(_SUFFIXES) for name in itertools.islice(walk(path), _LOOKED_AT))
    if not os.path.isfile(path):
        return False
    try:
        with open_bytes(path) as file:
            return _PAGES.match(file.read(4096)) is not None
    except (InputError, OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        return False  # its reader says what is wrong


def documents_of_pages(path: str) -> str:
    """The JSONL file with the documents of `path`, written into the cache unless it is there.

    Raises InputError where the pages cannot be read; the command has then said why.
    """
    target = os.path.join(cache_directory("pages"), _identity(path) + ".jsonl")
    if os.path.exists(target):
        return target
    os.makedirs(os.path.dirname(target), exist_ok=True)
    print(f"{path} holds pages: writing their documents to {target}, once", file=sys.stderr)
    temporary = beside(target)
    command = child("documents", path, f"--output={temporary}")
    done = subprocess.run(command, stdout=subprocess.PIPE, env=child_environment(), text=True, check=False)
    print(done.stdout.replace(temporary, target), end="", file=sys.stderr)  # standard output belongs to the caller
    if done.returncode:
        raise InputError(f"cannot read the pages of {path}; `harp documents {path} --output=docs.jsonl` says why")
    os.replace(temporary, target)
    return target


def _identity(path: str) -> str:
    """The name of the pages and a hash of the version and of every file's path, size and times of change."""
    state = hashlib.blake2b(__version__.encode(), digest_size=12)
    for name in walk(path) if os.path.isdir(path) else [path]:
        about = os.stat(name)
        state.update(
            f"{os.path.realpath(name)} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}\n".encode(
                "utf-8", "surrogateescape"
            )
        )
    name = re.sub("[^A-Za-z0-9._-]", "_", os.path.basename(os.path.normpath(path)))[:80]
    return f"{name}-{state.hexdigest()}"
