"""Digests of files and folders by content. Those of large files are remembered, so that they are read once and not at each start.

A digest is remembered for a path, size, inode and times of change: the time of the inode's last change cannot be set back, as
tools that copy files do with the time of modification.
"""

import hashlib
import json
import os

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json, replacing, sha256_file

SMALL = 1 << 16  # bytes up to which a file is read again each time


class Contents:
    """Called with a path: the digest of a file, or of the names and contents of a folder's files.

    `cache` is the file of remembered digests, "" for none; `save` writes it.
    """

    def __init__(self, cache: str = "") -> None:
        self.cache = cache
        self._known: dict[str, list[object]] = {}
        if cache and os.path.exists(cache):
            try:
                self._known = read_json(cache)
            except InputError:
                os.remove(cache)  # everything is read again

    def __call__(self, path: str) -> str:
        if not os.path.isdir(path):
            return self._file(path)
        digest = hashlib.sha256()
        seen = set()
        for folder, folders, names in os.walk(path, followlinks=True):  # as readers of pages do
            seen.add(os.path.realpath(folder))
            folders[:] = sorted(name for name in folders if os.path.realpath(os.path.join(folder, name)) not in seen)
            for name in sorted(names):
                inner = os.path.join(folder, name)
                if os.path.isfile(inner):
                    digest.update(
                        f"{os.path.relpath(inner, path)}\0{self._file(inner)}\n".encode(errors="surrogateescape")
                    )
        return digest.hexdigest()

    def _file(self, path: str) -> str:
        about = os.stat(path)
        if about.st_size <= SMALL:
            return sha256_file(path)
        key, state = os.path.realpath(path), [about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns]
        found = self._known.get(key)
        if not isinstance(found, list) or len(found) != 2 or found[0] != state or not isinstance(found[1], str):
            found = self._known[key] = [state, sha256_file(path)]
        return str(found[1])

    def save(self) -> None:
        """Writes the remembered digests."""
        if self.cache:
            with replacing(self.cache) as file:
                json.dump(self._known, file)
