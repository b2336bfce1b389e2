"""Finished term weights as a directory that is identified by its sha256.

They are computed once and kept: the last bits of attention depend on batch shapes and hardware.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from data_pipeline.engine.job import ALL_WEIGHTS, Engine, Inputs
from data_pipeline.engine.store import bucket_parts
from data_pipeline.weights import attention, without_encoder
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json, replacing, sha256_file

WITHOUT_ENCODER = ("uniform", "idf")  # values of config.encoder that need none
TABLES = ("sentence_weights", "passage_weights")
FOLDER, META = "term_weights", "meta.json"
FORMAT = 2


def digest(folder: str) -> str:
    """sha256 over the names and contents of an artefact's files."""
    state = hashlib.sha256()
    for name in TABLES:
        for parent, _, files in sorted(os.walk(os.path.join(folder, name))):
            # Ignore temporary files of a killed job.
            for file in sorted(name for name in files if name.endswith(".parquet")):
                path = os.path.join(parent, file)
                state.update(f"{os.path.relpath(path, folder)} {sha256_file(path)}\n".encode())
    return state.hexdigest()


def read_meta(folder: str) -> dict[str, Any]:
    """meta.json of finished term weights: format, encoder (its content), belongs_to (a digest of the input), sha256."""
    path = os.path.join(folder, META)
    if not os.path.isfile(path):
        raise InputError(f"{folder} holds no finished term weights (no {META}); check config.term_weights")
    meta = read_json(path, "make the term weights again")
    if meta.get("format") != FORMAT:
        raise InputError(f"the term weights in {folder} have another format than {FORMAT}; make them again")
    if not isinstance(meta.get("encoder"), dict) or not {"belongs_to", "sha256"} <= meta.keys():
        raise InputError(f"{path} is damaged; make the term weights again")
    return meta


def write_meta(folder: str, belongs_to: str, encoder: Mapping[str, Any]) -> None:
    """Writes meta.json, which marks the term weights as finished."""
    with replacing(os.path.join(folder, META)) as file:
        fields = {"format": FORMAT, "encoder": encoder, "belongs_to": belongs_to, "sha256": digest(folder)}
        json.dump(fields, file, indent=1)


def verify(folder: str, belongs_to: str, encoder: Mapping[str, Any] | None = None) -> str:
    """The sha256 of finished term weights; InputError if they are incomplete, damaged, or of another input or encoder."""
    meta = read_meta(folder)
    if meta["belongs_to"] != belongs_to:
        raise InputError(
            f"the term weights in {folder} were made for other input, tokenizer or link settings; leave config.term_weights empty"
        )
    if encoder is not None and meta["encoder"] != encoder:
        raise InputError(f"the term weights in {folder} were made by another encoder; remove that directory")
    if digest(folder) != meta["sha256"]:
        raise InputError(f"the files in {folder} do not match its {META}; make the term weights again")
    return meta["sha256"]


# The fields that determine the sentences and passages.
WEIGHTED_BY = (
    "min_article_words", "min_section_words", "exclude_destinations", "drop_anchors", "document_title", "max_doc_tokens",
    "source.format", "source.max_page_bytes", "source.base_url", "source.split", "page_identity", "unit", "anchor_row",
)  # fmt: skip


def provide(engine: Engine, inputs: Inputs) -> str:
    """Computes the term weights of a job, or uses those of config.term_weights; returns their sha256.

    Sets `job["elsewhere"]` to the directories of their tables. Raises InputError for weights of another input or encoder.
    """
    job, c = engine.job, engine.job["config"]
    given = c | {f"source.{key}": value for key, value in c["source"].items()}
    decides = {key: given[key] for key in WEIGHTED_BY}
    decides["passages"] = "all" if ALL_WEIGHTS in job["needs"] else "linked"
    content = json.dumps([decides, inputs["source"], inputs["tokenizer_sha256"]])
    belongs_to = hashlib.sha256(content.encode()).hexdigest()
    if c["term_weights"]:
        sha256 = verify(c["term_weights"], belongs_to)
        job["elsewhere"] = {name: os.path.join(os.path.abspath(c["term_weights"]), name) for name in TABLES}
        return sha256
    encoder = inputs["encoder_content"] | {"dtype": c["encoder_dtype"]}
    folder = os.path.join(job["output"], FOLDER)
    job["elsewhere"] = {name: os.path.join(folder, name) for name in TABLES}
    if not os.path.exists(os.path.join(folder, META)):
        if c["encoder"] in WITHOUT_ENCODER:
            engine.map("weigh sentences", without_encoder.weigh_sentences, bucket_parts(job, "sentences"))
            engine.map("weigh passages", without_encoder.weigh_passages, bucket_parts(job, "passages"))
        else:
            attention.compute(job)
        write_meta(folder, belongs_to, encoder)
    return verify(folder, belongs_to, encoder)
