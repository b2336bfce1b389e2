"""The manifest of a generation job as training reads it: which shards there are, and whether they are what was written."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

MANIFEST = "manifest.json"
SHARD_FIELDS = {"file": str, "records": int, "bytes": int, "sha256": str}
AGAIN = "copy the directory again, or generate the data again in an empty one"


@dataclass(frozen=True)
class Shard:
    """A TFRecord file and what the manifest says of it. `path` may be in a bucket."""

    path: str
    records: int
    bytes: int
    sha256: str

    def check_size(self) -> None:
        """Raises InputError for a local file that is missing or of another size; shards in buckets are not asked for."""
        if "://" in self.path:
            return
        if not os.path.exists(self.path):
            raise InputError(f"shard {self.path} is missing, which {MANIFEST} lists; {AGAIN}")
        size = os.path.getsize(self.path)
        if size != self.bytes:
            raise InputError(
                f"shard {self.path} is damaged: it has {size} bytes, {MANIFEST} says {self.bytes}; {AGAIN}"
            )

    def check_content(self) -> None:
        """Raises InputError unless the file has the sha256 of the manifest: a swapped or changed shard would be trained on."""
        from etils import epath

        with epath.Path(self.path).open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != self.sha256:
            raise InputError(f"shard {self.path} is damaged: its sha256 is not that of {MANIFEST}; {AGAIN}")


def read_manifest(directory: str) -> dict[str, Any]:
    """The manifest of a finished generation job, in a local directory or a bucket.

    Raises InputError if the job has not finished, or if the file is damaged.
    """
    from etils import epath

    path = epath.Path(directory) / MANIFEST
    try:
        manifest = json.loads(path.read_bytes().decode())
    except FileNotFoundError as error:
        raise InputError(f"{directory} has no {MANIFEST}: the generation job did not finish; run it again") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}); {AGAIN}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("tokenizer_sha256"), str):
        raise InputError(f"{path} is no manifest of a generation job; {AGAIN}")
    splits = manifest.get("splits")
    if not isinstance(splits, dict) or not all(map(_is_split, splits.values())):
        raise InputError(f"{path} lists no splits with shards; {AGAIN}")
    return manifest


def _is_split(split: Any) -> bool:
    """Whether a split has shards whose fields have their types; names lead to no other directory."""
    if not isinstance(split, dict) or not isinstance(split.get("shards"), list):
        return False
    return all(
        isinstance(shard, dict)
        and all(type(shard.get(name)) is kind for name, kind in SHARD_FIELDS.items())
        and os.path.basename(shard["file"]) == shard["file"] != ""
        for shard in split["shards"]
    )


def shards_of(directory: str, split: dict[str, Any]) -> list[Shard]:
    """The shards of an entry of `splits`."""
    from etils import epath

    return [
        Shard(os.fspath(epath.Path(directory) / shard["file"]), shard["records"], shard["bytes"], shard["sha256"])
        for shard in split["shards"]
    ]


def check_sizes(directory: str, manifest: dict[str, Any]) -> None:
    """Raises InputError for the first shard of a manifest that is missing or of another size."""
    for split in manifest["splits"].values():
        for shard in shards_of(directory, split):
            shard.check_size()


def job_tokenizer(directory: str, manifest: dict[str, Any], given: str = "") -> Tokenizer:
    """The tokenizer of a generation job: `given`, or where the manifest says, from the directory or from here.

    InputError unless it is the one that the data were made with.
    """
    relative, recorded = manifest.get("tokenizer", ""), manifest.get("config", {}).get("tokenizer", "")
    for path in [given] if given else [os.path.join(directory, relative), recorded]:
        with contextlib.suppress(InputError):
            tokenizer = load_tokenizer(path)
            if tokenizer.sha256 == manifest["tokenizer_sha256"]:
                return tokenizer
    raise InputError(f"{given or recorded or directory} has not the tokenizer of {directory}; name it with --tokenizer")
