"""Which job an output directory belongs to, before `made.once` has a record: a killed job resumes, another one is refused.

A job is identified by its config, the content of its input files, its vocabulary and its encoder. The directory is complete
exactly if manifest.json exists.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from data_pipeline.engine.job import Config, Inputs
from data_pipeline.weights import term_weights
from harp_jax.base.errors import InputError
from harp_jax.base.files import expand, json_fields, locked, read_json, replacing, walk
from harp_jax.base.made import digest, once
from harp_jax.base.progress import progress
from harp_jax.input.records import AGAIN, MANIFEST, check_sizes, read_manifest
from harp_jax.text.languages import stopwords_file

P = ParamSpec("P")
T = TypeVar("T")

WORK = ".work"
# Fields that do not change the bytes of the output, and those that name files or folders.
NOT_IDENTITY = ("workers", "memory_limit", "keep_work", "language_from")
NAMED = ("tokenizer", "encoder", "exclude_destinations", "stopwords")
SOURCES = ("paths", "redirects")
INPUTS = ("source", "tokenizer_sha256", "encoder_content")  # the fields of `Inputs`


def config_files(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Option → path of the files and folders that the argument `config` names."""
    config = arguments["config"]
    if "source" not in config:
        return {}  # a config of another command, which `config.validated_dict` refuses
    files = {f"config.source.{name}.{n}": path for name in SOURCES for n, path in enumerate(config.source[name])}
    return files | {
        f"config.{name}": config[name] for name in NAMED if config[name] not in term_weights.WITHOUT_ENCODER
    }


def once_for_config(function: Callable[P, T]) -> Callable[P, T]:
    """`made.once` for a function of a generation config: its files count by content, and how fast it runs does not count."""
    return once(inputs=config_files, speed=[f"config.{name}" for name in NOT_IDENTITY])(function)


def fingerprint(c: Config, tokenizer_sha256: str) -> Inputs:
    """Identifies the input of a job by content: `source`, the name, size and sha256 of every file; `tokenizer_sha256`;
    `encoder_content`: the encoder's sha256 (or "uniform", "idf") and number of positions."""
    encoder = {"sha256": c["encoder"]}
    if c["encoder"] and c["encoder"] not in term_weights.WITHOUT_ENCODER:
        if not os.path.isdir(c["encoder"]):
            raise InputError(f'config.encoder {c["encoder"]!r} is not a directory; name an encoder, "uniform" or "idf"')
        encoder = term_weights.identify(c["encoder"])
    paths = [path for name in SOURCES for path in expand(tuple(c["source"][name]))]
    paths += [path for path in (c["exclude_destinations"], stopwords_file(c["stopwords"])) if path]
    source = []
    with progress(paths, unit="files", desc="fingerprint") as bar:
        for path in bar:
            size = sum(map(os.path.getsize, walk(path) if os.path.isdir(path) else [path]))
            source.append({"name": os.path.basename(path.rstrip("/")), "size": size, "sha256": digest(path).sha256})
    return {"source": source, "tokenizer_sha256": tokenizer_sha256, "encoder_content": encoder}


@contextlib.contextmanager
def claimed(output: str, c: Config, inputs: Inputs) -> Iterator[bool]:
    """Locks the directory for a job; yields whether it was killed after its manifest, so that nothing is left to do. Removes the
    work directory at the end, unless the config keeps it. Raises InputError if the directory belongs to another job, or another
    process is writing to it."""
    manifest, work = os.path.join(output, MANIFEST), os.path.join(output, WORK)
    begun = os.path.join(work, "job.json")
    with locked(os.path.join(work, "lock"), f"another process is writing to {output}; wait or choose another --output"):
        now = then = identity(c, inputs)
        finished = os.path.exists(manifest)
        with json_fields(manifest if finished else begun, AGAIN):
            if finished:
                made = read_manifest(output)
                check_sizes(output, made)
                then = identity(made["config"], made)
            elif os.path.exists(begun):
                then = read_json(begun, "remove the output directory and run again")
            else:
                weights = os.path.join(output, term_weights.FOLDER)
                if not os.path.exists(os.path.join(weights, term_weights.META)):
                    # Unfinished weights of an earlier job whose work directory was removed.
                    shutil.rmtree(weights, ignore_errors=True)
                with replacing(begun) as file:
                    json.dump(now, file, indent=1)
        check_same(then, now, output)
        yield finished
        if not c["keep_work"]:
            shutil.rmtree(work, ignore_errors=True)


def identity(c: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the bytes of the output: the config by name ("source.split", "seed"), and the inputs by content. Of paths it
    matters only whether they are set."""
    fields = {f"source.{name}": value for name, value in c["source"].items()} | c
    fields |= {name: bool(fields[name]) for name in (*NAMED, *(f"source.{name}" for name in SOURCES))}
    fields = {name: value for name, value in fields.items() if name not in (*NOT_IDENTITY, "source")}
    return json.loads(json.dumps(fields | {name: inputs[name] for name in INPUTS}))


def check_same(begun: Mapping[str, Any], now: Mapping[str, Any], output: str) -> None:
    """Raises InputError, which names the first difference, if an output was begun with other options or inputs."""
    for name in sorted(begun.keys() | now.keys()):
        if begun.get(name) != now.get(name):
            then, here = (json.dumps(each.get(name))[:60] for each in (begun, now))
            advice = "choose another --output, or remove this one"
            raise InputError(f"{output} was begun with {name}={then}, now {here}; {advice}")
