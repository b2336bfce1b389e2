"""Training data and workdirs in Google Cloud Storage (gs://BUCKET/…), for hosts that share no file system.

Orbax writes arrays to no other store, so s3:// is rejected. A bucket cannot append, lock or rename: each process keeps the small
files of a workdir in a local directory, and the first one uploads them before each checkpoint.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from harp_jax.base.errors import InputError, first_line, needs
from harp_jax.base.files import files_below

os.environ["EPATH_USE_TF"] = "false"  # Orbax's etils reads it once, at the first path
# Folders of a workdir that are not mirrored: Orbax's, and that of a separate run (`pretrain.HEAD_DIRECTORY`).
APART = ("checkpoints", "checkpoints_damaged", "mlm_head")
RECORDS = ("config.json", "selection.json")  # refer to other files, so they are uploaded last


def is_bucket(path: str) -> bool:
    return "://" in path


@contextlib.contextmanager
def store_of(path: str) -> Iterator[Any]:
    """The gcsfs file system of a path. InputError for any store but Google's, and if the bucket does not answer in the block."""
    if not path.startswith("gs://"):
        raise InputError(f"{path}: only gs:// buckets are supported; mount the bucket, or use a local path")
    with needs(path, "gcsfs", "gcs"):
        import gcsfs
    logging.getLogger("gcsfs").setLevel(logging.ERROR)  # it warns at length if it may not read the bucket's type
    try:
        yield gcsfs.GCSFileSystem(use_listings_cache=False)  # other processes write there too
    except (InputError, FileNotFoundError):
        raise
    except Exception as error:
        advice = "check the bucket and the credentials, and run the same command again"
        raise InputError(f"cannot reach {path}: {first_line(error)}; {advice}") from error


def read(path: str) -> bytes:
    """The content of an object. FileNotFoundError if there is none."""
    with store_of(path) as store:
        return store.cat_file(path)


def write(path: str, content: bytes) -> None:
    """Creates or replaces an object atomically."""
    with store_of(path) as store, store.open(path, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def fetched(path: str, apart: Collection[str] = ()) -> Iterator[str]:
    """A local path: `path` itself, or a temporary copy of a directory in a bucket, without the folders named in `apart`."""
    if not is_bucket(path):
        yield path
        return
    root = path.removeprefix("gs://").rstrip("/") + "/"
    with tempfile.TemporaryDirectory(prefix="harp_jax_") as local:
        with store_of(path) as store:
            for name in store.find(path):
                file = Path(local, name.removeprefix(root))
                if not {*file.relative_to(local).parent.parts} & {*apart}:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(store.cat_file(name))
        yield local


class Mirror:
    """A temporary copy, `local`, of the small files of a workdir in a bucket."""

    def __init__(self, workdir: str, cleanup: contextlib.ExitStack) -> None:
        self.workdir = workdir.rstrip("/")
        self.local = cleanup.enter_context(fetched(self.workdir, APART))
        self._sent = self._states()

    def send(self) -> None:
        """Uploads changed files to the bucket, and deletes removed ones there."""
        states = self._states()
        changed = [name for name, state in states.items() if self._sent.get(name) != state]
        for name in sorted(changed, key=lambda name: (os.path.basename(name) in RECORDS, name)):
            write(f"{self.workdir}/{name}", Path(self.local, name).read_bytes())
        with store_of(self.workdir) as store:
            for name in self._sent.keys() - states.keys():
                with contextlib.suppress(FileNotFoundError):
                    store.rm_file(f"{self.workdir}/{name}")
        self._sent = states

    def _states(self) -> dict[str, tuple[int, int]]:
        """Size and modification time of each file but the lock, which other hosts cannot see."""
        about = {name: os.stat(os.path.join(self.local, name)) for name in files_below(self.local) if name != "lock"}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in about.items()}
