"""The term weights of a job, from an encoder's attention (HARP Eq. 1, 5, 10, 13) or, without one, "uniform" or "idf"; a directory
when finished.

The directory is identified by its sha256. Weights are computed once and kept, since the last bits of attention depend on batch
shapes and hardware: another job of the same input and encoder uses a copy of the directory in its own output.

An encoder runs in the parent process on all local devices. One forward pass per sentence returns the attention from [CLS] and from
all anchors; only these rows of the last layer are computed and copied to the host. The batches of a bucket are a pure function of
its content: sequences sorted by length, longest first, in batches of a fixed number of slots, padded to a few lengths. With another
number of devices the last bits of a weight may differ, because matrix shapes differ; the rounding to float16 removes most of these
differences.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_WEIGHTS, Engine, Inputs, Job, Outputs
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.store import bucket_parts, rows
from data_pipeline.engine.tables import unpack
from data_pipeline.text.terms import terms_of, unpack_words
from data_pipeline.weights.tokenised import to_bytes, weighed_passages
from data_pipeline.weights.word_counts import FREQUENCY, WordCounts
from harp_jax.base.allocator import keep_pages
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json_as, replacing, sha256_file
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    import jax

WITHOUT_ENCODER = ("uniform", "idf")  # values of config.encoder that need no encoder
TABLES = (tables.SENTENCE_WEIGHTS, tables.PASSAGE_WEIGHTS)
FOLDER, META = "term_weights", "meta.json"
Texts = Sequence[tables.SentenceRow | tables.PassageRow]
Anchors = Sequence[Sequence[tables.AnchorRow]]  # of each text


class Meta(TypedDict):
    """meta.json, which marks term weights as finished; belongs_to: a digest of the input."""

    encoder: dict[str, Any]
    belongs_to: str
    sha256: str


# The fields that determine the sentences and passages.
WEIGHTED_BY = (
    "min_article_words", "exclude_destinations", "drop_anchors", "destination_text", "document_title", "max_doc_tokens",
    "language", "source.format", "source.max_page_bytes", "source.base_url", "source.exclude", "source.split", "page_identity",
    "unit", "anchor_row", "linking_pages",
)  # fmt: skip
# Row lengths of a batch, and numbers of attending positions; each pair is compiled once. On Wikipedia's sentences the lengths for
# accelerators (multiples of 8) fill 88 % of the slots, those for CPUs 93 %.
LENGTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 448, *range(512, 1 << 20, 256))
CPU_LENGTHS = (
    *(*range(8, 64, 4), *range(64, 128, 8), *range(128, 256, 16)),
    *(*range(256, 512, 32), *range(512, 1 << 20, 256)),
)
SLOTS = {True: 2048, False: 65_536}  # slots per batch: on CPU, on accelerators
QUERIES = (1, 16, 64, *range(512, 1 << 20, 512))


def provide(engine: Engine, inputs: Inputs) -> str:
    """Computes the term weights of a job in `job.weights`, unless finished ones are there; returns their sha256. Raises InputError
    for weights that are damaged, or of another input or encoder."""
    job, c = engine.job, engine.job.config
    fields = c | {f"source.{key}": value for key, value in c["source"].items()}
    decides = {key: fields[key] for key in WEIGHTED_BY}
    decides["exclude_destinations"] = os.path.basename(c["exclude_destinations"])  # its content is in `inputs`
    decides["passages"] = "all" if ALL_WEIGHTS in job.needs else "linked"
    content = json.dumps([decides, inputs["source"], inputs["tokenizer_sha256"]])
    belongs_to = hashlib.sha256(content.encode()).hexdigest()
    encoder = {**inputs["encoder_content"], "dtype": c["encoder_dtype"]}
    path = os.path.join(job.weights, META)
    if not os.path.exists(path):
        with_encoder = c["encoder"] not in WITHOUT_ENCODER
        running = SerialEngine(job, 1, "") if with_encoder else engine  # the devices belong to this process
        running.map("weigh sentences", weigh_sentences, bucket_parts(job, tables.SENTENCES))
        running.map("weigh passages", weigh_passages, bucket_parts(job, tables.PASSAGES))
        load.cache_clear()
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
        for path in sorted(Path(folder, table.name).rglob("*.parquet")):
            state.update(f"{path.relative_to(folder)} {sha256_file(str(path))}\n".encode())
    return state.hexdigest()


def weigh_sentences(job: Job, number: int, payload: None) -> Outputs:
    """Map over `sentences`."""
    sentences, weighed = list(rows(job, tables.SENTENCES, number)), []
    for row, (alpha, to_cls) in zip(sentences, attention(job, sentences, [row["anchors"] for row in sentences])):
        weights = dict(cls=to_bytes(alpha[0]), anchors=to_bytes(alpha[1:]), to_cls=to_bytes(to_cls))
        weighed.append(dict(doc=row["doc"], start=row["start"]) | weights)
    return {tables.SENTENCE_WEIGHTS: weighed}


def weigh_passages(job: Job, number: int, payload: None) -> Outputs:
    """Map over `passages`."""
    passages = weighed_passages(job, number)
    weighed = zip(passages, attention(job, passages, [()] * len(passages)))
    return {tables.PASSAGE_WEIGHTS: [dict(doc=row["doc"], weights=to_bytes(alpha[0])) for row, (alpha, _) in weighed]}


def attention(job: Job, texts: Texts, anchors: Anchors) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Of each sentence or passage: attention [1 + anchors, words] to its words, from [CLS] and from each anchor, and
    attention [anchors] from the anchors to [CLS]. Without an encoder every anchor has the weights of [CLS], and both directions of
    Eq. 10 are the mean over the anchor's tokens."""
    if job.config["encoder"] not in WITHOUT_ENCODER:
        yield from encoded(job, texts, anchors)
        return
    terms = terms_of(job.config)
    frequency = WordCounts(os.path.join(job.work, FREQUENCY)) if job.config["encoder"] == "idf" else None
    for row, inside in zip(texts, anchors):
        lengths = unpack(row["lengths"])
        if frequency:
            alpha = frequency.idf(np.array([terms.hashed(word) for word in unpack_words(row["words"])], np.int64))
            alpha /= max(alpha.sum(), 1e-9)
        else:
            alpha = lengths / max(1, lengths.sum())
        spans = [slice(anchor["start"], anchor["end"]) for anchor in inside]
        to_cls = np.array([alpha[span].sum() / lengths[span].sum() for span in spans])
        yield np.tile(alpha, (1 + len(inside), 1)), to_cls


@functools.lru_cache(1)
def load(path: str, tokenizer: str, dtype: str) -> "Encoder":
    """The encoder of a job, until its weights are made."""
    keep_pages()
    return Encoder(path, load_tokenizer(tokenizer), dtype)


def encoded(job: Job, texts: Texts, anchors: Anchors) -> list[tuple[np.ndarray, np.ndarray]]:
    """`attention` by the encoder of the job, in float16, as it is stored."""
    c = job.config
    tokens, lengths = [unpack(row["tokens"]) for row in texts], [unpack(row["lengths"]) for row in texts]
    spans = [attending(*sentence, c["anchor_row"]) for sentence in zip(tokens, lengths, anchors)]
    weighed: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    encoder = load(c["encoder"], c["tokenizer"], c["encoder_dtype"])
    for i, attention, to_cls in encoder.rows(list(map(TokenSpans, tokens, spans))):
        weighed[i] = word_sums(attention, lengths[i]).astype(np.float16), to_cls[1:].astype(np.float16)
    return [weighed[i] for i in range(len(texts))]


def word_sums(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Attention over tokens [..., tokens] to attention over words [..., words]: the sum over a word's tokens."""
    if not len(lengths):
        return rows[..., :0]
    return np.add.reduceat(rows, np.concatenate([[0], np.cumsum(lengths)[:-1]]), axis=-1)


def attending(
    tokens: np.ndarray, lengths: np.ndarray, anchors: Sequence[Mapping[str, Any]], anchor_row: str
) -> list[tuple[int, int]]:
    """For each anchor the span of tokens whose attention weighs its context (HARP Eq. 1). "span": the anchor's tokens;
    "first_token": the first occurrence of its first token in the sentence."""
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    spans = [(int(bounds[anchor["start"]]), int(bounds[anchor["end"]])) for anchor in anchors]
    if anchor_row == "span":
        return spans
    first = [int(np.argmax(tokens == tokens[start])) for start, _ in spans]
    return [(at, at + 1) for at in first]


class TokenSpans(NamedTuple):
    """tokens [n] int32 without special tokens; the spans of tokens whose attention is returned, in addition to [CLS]."""

    tokens: np.ndarray
    spans: list[tuple[int, int]]

    @property
    def positions(self) -> list[int]:
        """The positions of all spans, each once: anchors in scripts without spaces can share a word."""
        return sorted({position for start, end in self.spans for position in range(start, end)})


class Batch(NamedTuple):
    """Indices of the sequences, and the arrays of one forward pass: tokens, segment_ids [rows, T], queries [rows, Q] int32."""

    members: list[int]
    tokens: np.ndarray
    segment_ids: np.ndarray
    queries: np.ndarray


class Encoder:
    """An encoder on all local devices; the rows of a batch are sharded. Raises InputError for an encoder that cannot be read or has
    another vocabulary."""

    def __init__(self, path: str, tokenizer: Tokenizer, dtype: str) -> None:
        import jax
        from jax.sharding import AxisType, NamedSharding, PartitionSpec

        from harp_jax.checkpoints.start import load_encoder, tokenizer_of
        from harp_jax.model.cross_encoder import Ranker

        shape, params = load_encoder(path)
        theirs = load_tokenizer(tokenizer_of(path))
        if theirs.sha256 != tokenizer.sha256 or shape.vocab_size < tokenizer.size:
            raise InputError(
                f"the vocabulary of encoder {path} ({theirs.size} tokens) differs from that of config.tokenizer "
                f"({tokenizer.size} tokens); use the encoder's own tokenizer"
            )
        devices = jax.local_devices()
        if dtype != "float32":
            # Cast once, not per batch; biases and norms stay in float32.
            params = jax.tree.map(lambda x: x.astype(dtype) if x.ndim > 1 else x, params)
        mesh = jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)
        rows = NamedSharding(mesh, PartitionSpec("data"))
        self._place = lambda x: jax.device_put(x, rows)
        self._params = jax.device_put({"encoder": params["encoder"]}, NamedSharding(mesh, PartitionSpec()))
        on_cpu = devices[0].platform == "cpu"
        self.tokenizer, self.slots, self.devices = tokenizer, SLOTS[on_cpu], len(devices)
        lengths = (length for length in (CPU_LENGTHS if on_cpu else LENGTHS) if length < shape.max_positions)
        self.lengths = (*lengths, shape.max_positions)
        model = Ranker(shape.computing_in(dtype))

        def attention(params: dict, tokens: jax.Array, segments: jax.Array, queries: jax.Array) -> Any:
            positions = jax.numpy.broadcast_to(jax.numpy.arange(tokens.shape[1], dtype=tokens.dtype), tokens.shape)
            batch = dict(tokens=tokens, segment_ids=segments, position_ids=positions, token_type_ids=0 * tokens)
            return model.apply({"params": params}, batch, queries, method="attention_rows")

        self._attention = jax.jit(attention)

    def batches(self, sequences: list[TokenSpans]) -> Iterator[Batch]:
        """Batches of about `slots` slots, longest sequences first, padded to the smallest of `lengths` that fits."""

        def at_least(sizes: tuple[int, ...], size: int) -> int:
            return next(candidate for candidate in sizes if candidate >= size)

        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i].tokens))
        at, template = 0, self.tokenizer.template
        special = template.around_text
        while at < len(order):
            length = at_least(self.lengths, len(sequences[order[at]].tokens) + special)
            rows = max(1, self.slots // length // self.devices) * self.devices
            members = order[at : at + rows]
            at += rows
            wanted = [sequences[i].positions for i in members]
            width = at_least(QUERIES, 1 + max(map(len, wanted)))
            tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
            segments = np.zeros((rows, length), np.int32)
            queries = np.zeros((rows, width), np.int32)
            for row, i in enumerate(members):
                size = len(sequences[i].tokens)
                tokens[row, : size + special] = (*template.start, *sequences[i].tokens, *template.alone)
                segments[row, : size + special] = 1
                queries[row, 1 : 1 + len(wanted[row])] = [position + 1 for position in wanted[row]]
            yield Batch(members, tokens, segments, queries)

    def rows(self, sequences: list[TokenSpans]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(index, [1 + spans, n], [1 + spans] float32): attention from [CLS], then from each span (mean over its pieces). The first
        array is attention to the sequence's tokens (HARP Eq. 1), the second to [CLS] (Eq. 10, read literally). n is 0 for sequences
        without tokens."""

        def unpacked(batch: Batch, result: "jax.Array") -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
            attention = np.asarray(result)
            for row, i in enumerate(batch.members):
                tokens, spans = sequences[i]
                inner = attention[row, :, : len(tokens) + 1]
                at = {position: 1 + row for row, position in enumerate(sequences[i].positions)}
                means = [inner[[at[position] for position in range(*span)]].mean(axis=0) for span in spans]
                stacked = np.stack([inner[0], *means])
                yield i, stacked[:, 1:], stacked[:, 0]

        waiting: list[tuple[Batch, jax.Array]] = []
        for batch in self.batches(sequences):
            arrays = [self._place(x) for x in (batch.tokens, batch.segment_ids, batch.queries)]
            waiting.append((batch, self._attention(self._params, *arrays)))
            # The device computes the next batch while the host unpacks this one.
            if len(waiting) > 1:
                yield from unpacked(*waiting.pop(0))
        for each in waiting:
            yield from unpacked(*each)


def identify(path: str) -> dict[str, Any]:
    """Identifies an encoder by content: {"sha256" over its shape and parameters, "positions": its number of positions}. A training
    workdir is read at its newest checkpoint that verifies, and has the same sha256 as its export."""
    import jax

    from harp_jax.checkpoints.start import load_encoder

    shape, params = load_encoder(path)
    state = hashlib.sha256(f"{shape.layers} {shape.heads} {shape.layer_norm_eps}".encode())
    leaves = jax.tree_util.tree_leaves_with_path(params["encoder"])
    for name, leaf in sorted((jax.tree_util.keystr(key), leaf) for key, leaf in leaves):
        state.update(f"{name} {leaf.dtype} {leaf.shape}".encode())
        state.update(np.ascontiguousarray(leaf).data)
    return {"sha256": state.hexdigest(), "positions": shape.max_positions}
