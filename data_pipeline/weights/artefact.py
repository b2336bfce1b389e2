"""The term weights of a job, from an encoder's attention or, without one, "uniform" or "idf"; a directory when finished.

The directory is identified by its sha256. Weights are computed once and kept, since the last bits of attention depend on batch
shapes and hardware: another job of the same input and encoder uses a copy of the directory in its own output.
"""

import hashlib
import json
import os
from collections.abc import Callable
from typing import TypedDict

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_WEIGHTS, EncoderContent, Engine, Inputs, Job, Outputs
from data_pipeline.engine.store import bucket_parts, read
from data_pipeline.engine.tables import Row, unpack
from data_pipeline.text.terms import terms_of, unpack_words
from data_pipeline.weights import attention_weights
from data_pipeline.weights.tokenised import to_bytes, weighed_passages
from data_pipeline.weights.word_counts import FREQUENCY, WordCounts
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json_as, replacing, sha256_file

WITHOUT_ENCODER = ("uniform", "idf")  # values of config.encoder that need no encoder
TABLES = (tables.SENTENCE_WEIGHTS, tables.PASSAGE_WEIGHTS)
FOLDER, META = "term_weights", "meta.json"


class Meta(TypedDict):
    """meta.json, which marks term weights as finished; belongs_to: a digest of the input."""

    encoder: EncoderContent
    belongs_to: str
    sha256: str


# The fields that determine the sentences and passages.
WEIGHTED_BY = (
    "min_article_words", "exclude_destinations", "drop_anchors", "destination_text", "document_title", "max_doc_tokens",
    "language", "source.format", "source.max_page_bytes", "source.base_url", "source.exclude", "source.split", "page_identity",
    "unit", "anchor_row", "linking_pages",
)  # fmt: skip


def provide(engine: Engine, inputs: Inputs) -> str:
    """Computes the term weights of a job in `job.weights`, unless finished ones are there; returns their sha256.

    Raises InputError for weights that are damaged, or of another input or encoder.
    """
    job, c = engine.job, engine.job.config
    fields = c | {f"source.{key}": value for key, value in c["source"].items()}
    decides = {key: fields[key] for key in WEIGHTED_BY}
    decides["exclude_destinations"] = os.path.basename(c["exclude_destinations"])  # its content is in `inputs`
    decides["passages"] = "all" if ALL_WEIGHTS in job.needs else "linked"
    content = json.dumps([decides, inputs["source"], inputs["tokenizer_sha256"]])
    belongs_to = hashlib.sha256(content.encode()).hexdigest()
    encoder: EncoderContent = {**inputs["encoder_content"], "dtype": c["encoder_dtype"]}
    path = os.path.join(job.weights, META)
    if not os.path.exists(path):
        if c["encoder"] in WITHOUT_ENCODER:
            engine.map("weigh sentences", weigh_sentences, bucket_parts(job, tables.SENTENCES))
            engine.map("weigh passages", weigh_passages, bucket_parts(job, tables.PASSAGES))
        else:
            attention_weights.compute(job)
        with replacing(path) as file:
            made: Meta = {"encoder": encoder, "belongs_to": belongs_to, "sha256": digest(job.weights)}
            json.dump(made, file, indent=1)
    meta = read_json_as(Meta, path, "make the term weights again")
    problem = "" if digest(job.weights) == meta["sha256"] else f"do not match {META}"
    problem = problem if meta["encoder"] == encoder else "were made by another encoder"
    problem = problem if meta["belongs_to"] == belongs_to else "were made for other input, tokenizer or link settings"
    if problem:
        raise InputError(f"the term weights in {job.weights} {problem}; remove them")
    return meta["sha256"]


def digest(folder: str) -> str:
    """sha256 over the names and contents of an artefact's files."""
    state = hashlib.sha256()
    for table in TABLES:
        for parent, _, files in sorted(os.walk(os.path.join(folder, table.name))):
            # Ignore temporary files of a killed job.
            for file in sorted(name for name in files if name.endswith(".parquet")):
                path = os.path.join(parent, file)
                state.update(f"{os.path.relpath(path, folder)} {sha256_file(path)}\n".encode())
    return state.hexdigest()


def weigh_sentences(job: Job, number: int, payload: None) -> Outputs:
    """Map over `sentences`: "uniform" or "idf" weights; every anchor has the weights of [CLS]."""
    weigh = _weigher(job)
    weighed = []
    for row in read(job, tables.SENTENCES, number).to_pylist():
        alpha, lengths, anchors = weigh(row), unpack(row["lengths"]), row["anchors"]
        # Without attention to [CLS], both directions of Eq. 10 are the mean over the anchor's tokens.
        spans = [slice(anchor["start"], anchor["end"]) for anchor in anchors]
        to_cls = np.array([alpha[span].sum() / lengths[span].sum() for span in spans])
        weights = dict(cls=to_bytes(alpha), anchors=to_bytes(np.tile(alpha, len(anchors))), to_cls=to_bytes(to_cls))
        weighed.append(dict(doc=row["doc"], start=row["start"]) | weights)
    return {tables.SENTENCE_WEIGHTS: weighed}


def weigh_passages(job: Job, number: int, payload: None) -> Outputs:
    """Map over `passages`: "uniform" or "idf" weights."""
    weigh, rows = _weigher(job), weighed_passages(job, number)
    return {tables.PASSAGE_WEIGHTS: [dict(doc=row["doc"], weights=to_bytes(weigh(row))) for row in rows]}


def _weigher(job: Job) -> Callable[[Row], np.ndarray]:
    """A function from a row of `sentences` or `passages` to the weights of its words."""
    if job.config["encoder"] == "uniform":
        return lambda row: unpack(row["lengths"]) / max(1, len(unpack(row["tokens"])))
    terms = terms_of(job.config)
    frequency = WordCounts(os.path.join(job.work, FREQUENCY))

    def idf(row: Row) -> np.ndarray:
        alpha = frequency.idf(np.array([terms.hashed(word) for word in unpack_words(row["words"])], np.int64))
        return alpha / max(alpha.sum(), 1e-9)

    return idf
