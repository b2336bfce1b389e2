"""Directories in Google Cloud Storage (gs://BUCKET/…): training data and workdirs for hosts that share no file system.

Orbax writes arrays directly to gs:// and to no other store, so s3:// and others are rejected. A bucket only replaces whole objects:
it cannot append, lock or rename. So during training each process keeps the small files of a workdir (config, tokenizer, metrics,
selected parameters) in a local directory, and the first process copies its files to the bucket before each checkpoint. gcsfs reads
the bucket even if TensorFlow could, because only that is tested.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import files_below

os.environ["EPATH_USE_TF"] = "false"  # etils reads it once, at the first path

SCHEME = "gs://"
# Folders of a workdir that are not mirrored: Orbax's, and that of a separate run (`pretrain.HEAD_DIRECTORY`).
APART = ("checkpoints", "checkpoints_damaged", "mlm_head")
RECORDS = ("config.json", "selection.json")


def is_bucket(path: str) -> bool:
    return "://" in path


def remote(path: str) -> Any:
    """The epath of a path in a bucket. InputError for any store but Google's, and without gcsfs."""
    if not path.startswith(SCHEME):
        raise InputError(f"{path}: only gs:// buckets are supported; mount the bucket, or use a local path")
    with needs(path, "gcsfs", "gcs"):
        import gcsfs  # noqa: F401
    import fsspec
    from etils import epath

    logging.getLogger("gcsfs").setLevel(logging.ERROR)  # it warns at length if it may not read the bucket's type
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False  # other processes write there too
    return epath.Path(path)


def read(path: str) -> bytes:
    """The content of an object. FileNotFoundError if there is none, InputError if the bucket does not answer."""
    with _reaching(path, FileNotFoundError):
        return remote(path).read_bytes()


def write(path: str, content: bytes) -> None:
    """Creates or replaces an object atomically. InputError if the bucket does not answer."""
    with _reaching(path):
        remote(path).write_bytes(content)


@contextlib.contextmanager
def _reaching(path: str, *expected: type[Exception]) -> Iterator[None]:
    """InputError if the bucket does not answer; `expected` exceptions pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (InputError, *expected)):
            raise
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
        advice = "check the bucket and the credentials, and run the same command again"
        raise InputError(f"cannot reach {path}: {said}; {advice}") from error


def listed(directory: Any, apart: Sequence[str] = (), prefix: str = "") -> Iterator[str]:
    """The paths of all objects below a directory, relative to it; folders whose name is in `apart` are skipped."""
    with _reaching(str(directory)):
        paths = sorted(directory.iterdir()) if directory.exists() else []
        folders = [path.is_dir() for path in paths]
    for path, is_folder in zip(paths, folders):
        if is_folder and path.name not in apart:
            yield from listed(path, apart, f"{prefix}{path.name}/")
        elif not is_folder:
            yield prefix + path.name


def copy_here(directory: str, local: str, apart: Sequence[str] = ()) -> None:
    """Copies a directory in a bucket to a local one, without the folders whose name is in `apart`."""
    for name in listed(remote(directory), apart):
        path = os.path.join(local, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(read(f"{directory}/{name}"))


@contextlib.contextmanager
def fetched(path: str) -> Iterator[str]:
    """A local path: `path` itself, or a temporary copy of a directory in a bucket."""
    if not is_bucket(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="harp_jax_") as local:
        copy_here(path.rstrip("/"), local)
        yield local


class Mirror:
    """A local copy, `local`, of the small files of a workdir in a bucket. `close` removes it."""

    def __init__(self, workdir: str) -> None:
        self.workdir = workdir.rstrip("/")
        self._directory = tempfile.TemporaryDirectory(prefix="harp_jax_workdir_")
        self.local = self._directory.name
        copy_here(self.workdir, self.local, APART)
        self._sent = self._states()

    def send(self) -> None:
        """Uploads changed files to the bucket, and deletes removed ones there. RECORDS refer to other files, so they are uploaded
        last: they never name a missing file."""
        states = self._states()
        changed = [name for name, state in states.items() if self._sent.get(name) != state]
        for name in sorted(changed, key=lambda name: (os.path.basename(name) in RECORDS, name)):
            with open(os.path.join(self.local, name), "rb") as file:
                write(f"{self.workdir}/{name}", file.read())
        for name in self._sent.keys() - states.keys():
            remote(f"{self.workdir}/{name}").unlink(missing_ok=True)
        self._sent = states

    def close(self) -> None:
        self._directory.cleanup()

    def _states(self) -> dict[str, tuple[int, int]]:
        """Size and modification time of each file but the lock, which other hosts cannot see."""
        paths = {name: os.path.join(self.local, name) for name in files_below(self.local) if name != "lock"}
        return {name: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for name, path in paths.items()}
