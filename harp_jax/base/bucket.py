"""Directories in Google Cloud Storage (gs://BUCKET/…): a training's data and workdir, where several hosts share no file system.

Orbax writes arrays to gs:// itself, and to no other store; s3:// and others are refused. A bucket replaces whole objects only: it
cannot append, lock or rename. So the small files of a workdir (config, tokenizer, metrics, selected parameters) are in a local
directory of each process while a training runs, and the first process copies its own to the bucket before each checkpoint. gcsfs
reads the bucket, also where TensorFlow could: one way is tested.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import files_below

os.environ["EPATH_USE_TF"] = "false"  # etils asks once, at the first path

SCHEME = "gs://"
# Of a workdir: what Orbax writes, and a run of its own (`pretrain.HEAD_DIRECTORY`).
APART = ("checkpoints", "checkpoints_damaged", "mlm_head")
RECORDS = ("config.json", "selection.json")


def is_bucket(path: str) -> bool:
    return "://" in path


def remote(path: str) -> Any:
    """The epath of a path in a bucket. InputError for another store than Google's, and without gcsfs."""
    if not path.startswith(SCHEME):
        raise InputError(f"{path}: only gs:// buckets are supported; mount the bucket, or use a local path")
    with needs(path, "gcsfs", "gcs"):
        import gcsfs  # noqa: F401
    import fsspec
    from etils import epath

    logging.getLogger("gcsfs").setLevel(
        logging.ERROR
    )  # a page of warnings where it may not read the kind of the bucket
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False  # other processes write there too
    return epath.Path(path)


def read(path: str) -> bytes:
    """The content of an object. FileNotFoundError where there is none, InputError where the bucket does not answer."""
    try:
        return remote(path).read_bytes()
    except (FileNotFoundError, InputError):
        raise
    except Exception as error:
        raise _unreachable(path, error) from error


def write(path: str, content: bytes) -> None:
    """Creates or replaces an object, whole or not at all. InputError where the bucket does not answer."""
    try:
        remote(path).write_bytes(content)
    except InputError:
        raise
    except Exception as error:
        raise _unreachable(path, error) from error


def _unreachable(path: str, error: Exception) -> InputError:
    said = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return InputError(
        f"cannot reach {path}: {said}; check the bucket and the credentials, and run the same command again"
    )


def listed(directory: Any, apart: Sequence[str] = (), prefix: str = "") -> Iterator[str]:
    """The paths of all objects below a directory, relative to it, without those in folders named as one of `apart`."""
    try:
        found = sorted(directory.iterdir()) if directory.exists() else []
        folders = [path.is_dir() for path in found]
    except Exception as error:
        raise _unreachable(str(directory), error) from error
    for path, is_folder in zip(found, folders):
        if is_folder and path.name not in apart:
            yield from listed(path, apart, f"{prefix}{path.name}/")
        elif not is_folder:
            yield prefix + path.name


def copy_here(directory: str, local: str, apart: Sequence[str] = ()) -> None:
    """Copies what is below a directory in a bucket to a local one."""
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
    """A local directory, `local`, for the small files of a workdir in a bucket, with those that are there. Removed by `close`."""

    def __init__(self, workdir: str) -> None:
        self.workdir = workdir.rstrip("/")
        self._directory = tempfile.TemporaryDirectory(prefix="harp_jax_workdir_")
        self.local = self._directory.name
        copy_here(self.workdir, self.local, APART)
        self._sent = self._states()

    def send(self) -> None:
        """Copies what changed to the bucket, and removes what was removed.

        A record of other files is sent after them (`config.json`, `selection.json`), so that it never names what is not there.
        """
        found = self._states()
        changed = [name for name, state in found.items() if self._sent.get(name) != state]
        for name in sorted(changed, key=lambda name: (os.path.basename(name) in RECORDS, name)):
            with open(os.path.join(self.local, name), "rb") as file:
                write(f"{self.workdir}/{name}", file.read())
        for name in self._sent.keys() - found.keys():
            remote(f"{self.workdir}/{name}").unlink(missing_ok=True)
        self._sent = found

    def close(self) -> None:
        self._directory.cleanup()

    def _states(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of each file but the lock, which another host cannot see."""
        paths = {name: os.path.join(self.local, name) for name in files_below(self.local) if name != "lock"}
        return {name: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for name, path in paths.items()}
