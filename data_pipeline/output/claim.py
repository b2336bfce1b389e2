"""An output directory belongs to one job. Records which job, whether it has finished, and which process writes.

A job is identified by its config, the content of its input files, its vocabulary and its encoder. The directory is complete
exactly if manifest.json exists.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from typing import IO, Any, ParamSpec, TypeVar

from data_pipeline.engine.job import Config, EncoderContent, Inputs
from data_pipeline.weights import artefact, attention_weights
from harp_jax.base.errors import InputError
from harp_jax.base.files import expand, json_fields, locked, read_json, replacing, walk
from harp_jax.base.made import digest, once
from harp_jax.base.progress import progress
from harp_jax.input.records import AGAIN, MANIFEST, check_sizes, read_manifest
from harp_jax.text.languages import stopwords_file

P = ParamSpec("P")
T = TypeVar("T")

WORK = ".work"
# Fields that do not change the bytes of the output.
NOT_IDENTITY = ("workers", "memory_limit", "keep_work", "language_from")
NAMED = ("tokenizer", "encoder", "exclude_destinations", "stopwords")
PATHS = (*NAMED, "source.paths", "source.redirects", "source.index")
CONTENTS = ("source", "tokenizer_sha256", "encoder_content")


def config_files(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Option → path of the files and folders that the argument `config` names."""
    config = arguments["config"]
    if "source" not in config:
        return {}  # a config of another command, which `config.plain` refuses
    files = {
        f"config.source.{name}.{number}": path
        for name in ("paths", "redirects", "index")
        for number, path in enumerate(config.source[name])
    }
    return files | {f"config.{name}": config[name] for name in NAMED if config[name] not in artefact.WITHOUT_ENCODER}


def once_for_config(function: Callable[P, T]) -> Callable[P, T]:
    """`made.once` for a function of a generation config: its files count by content, and how fast it runs does not count."""
    return once(inputs=config_files, speed=[f"config.{name}" for name in NOT_IDENTITY])(function)


def fingerprint(c: Config, tokenizer_sha256: str) -> Inputs:
    """Identifies the input of a job by content: every source file, the vocabulary, the encoder."""
    encoder = _encoder(c)
    paths = [path for field in ("paths", "redirects", "index") for path in expand(tuple(c["source"][field]))]
    paths += [path for path in (c["exclude_destinations"], stopwords_file(c["stopwords"])) if path]
    with progress(paths, unit="files", desc="fingerprint") as bar:
        source = [_file(path) for path in bar]
    return {"source": source, "tokenizer_sha256": tokenizer_sha256, "encoder_content": encoder}


def _file(path: str) -> dict[str, Any]:
    """Name, size and sha256 of a file or of all files in a folder."""
    size = sum(map(os.path.getsize, walk(path) if os.path.isdir(path) else [path]))
    return {"name": os.path.basename(path.rstrip("/")), "size": size, "sha256": digest(path).sha256}


def _encoder(c: Config) -> EncoderContent:
    """The source of the term weights by content; "positions" limits the length of its input."""
    encoder = c["encoder"]
    if not encoder or encoder in artefact.WITHOUT_ENCODER:
        return {"sha256": encoder}
    if not os.path.isdir(encoder):
        raise InputError(f'config.encoder {encoder!r} is not a directory; name an encoder, "uniform" or "idf"')
    return attention_weights.identify(encoder)


def claim(output: str, c: Config, inputs: Inputs) -> IO[str] | None:
    """Locks the directory for this job and returns the lock; None if the job has already finished.

    Raises InputError if the directory belongs to another job, or another process is writing to it.
    """
    mine, manifest, work = identity(c, inputs), os.path.join(output, MANIFEST), os.path.join(output, WORK)
    while True:
        os.makedirs(output, exist_ok=True)
        if os.path.exists(manifest):
            finished = read_manifest(output)
            with json_fields(manifest, AGAIN):
                _compare(identity(finished["config"], finished), mine, output)
                keep_work = finished["config"]["keep_work"]
            check_sizes(output, finished)
            if not keep_work:
                shutil.rmtree(work, ignore_errors=True)  # left by a job that was killed after writing the manifest
            return None
        busy = f"another process is writing to {output}; wait for it or choose another --output"
        lock = locked(os.path.join(work, "lock"), busy)
        if not os.path.exists(manifest):
            break
        lock.close()  # another process has finished the job since the check above: check again
    path = os.path.join(work, "job.json")
    if os.path.exists(path):
        advice = "remove the output directory and run again"
        with json_fields(path, advice):
            _compare(read_json(path, advice), mine, output)
    else:
        unfinished = os.path.join(output, artefact.FOLDER)
        if not os.path.exists(os.path.join(unfinished, artefact.META)):
            # Unfinished weights of an earlier job whose work directory was removed.
            shutil.rmtree(unfinished, ignore_errors=True)
        with replacing(path) as file:
            json.dump(mine, file, indent=1)
    return lock


def identity(c: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the bytes of the output, flattened: "source.split", "seed", … Of paths it matters only whether they are set:
    the content is in the inputs.
    """
    fields = {f"source.{name}": value for name, value in c["source"].items()} | c
    fields = {name: value for name, value in fields.items() if name not in (*NOT_IDENTITY, "source")}
    fields |= {name: bool(fields[name]) for name in PATHS}
    return json.loads(json.dumps(fields | {name: inputs[name] for name in CONTENTS}))


def _compare(theirs: Mapping[str, Any], mine: Mapping[str, Any], output: str) -> None:
    differing = [name for name in sorted(theirs.keys() | mine.keys()) if theirs.get(name) != mine.get(name)]
    if differing:
        shown = "; ".join(
            f"{name} ({_short(theirs.get(name))} there, {_short(mine.get(name))} here)" for name in differing
        )
        raise InputError(
            f"output directory {output} belongs to another config; differing keys: {shown}; "
            "choose another --output, or remove this one"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
