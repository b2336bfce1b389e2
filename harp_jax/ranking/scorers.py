"""Rankers: the `Scorer` interface, cross-encoders and bi-encoders (cosines).

Texts are tokenized and truncated as in training, and scored in batches of few shapes (`score_by_length`), by JAX or by a `Runtime`
without it. A long document is scored by its first tokens (FirstP), or by the best of several windows (MaxP, Dai and Callan 2019:
`best_windows`).
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.base.errors import InputError, at_least
from harp_jax.base.progress import Progress
from harp_jax.checkpoints.huggingface import check_vocabulary
from harp_jax.checkpoints.onnx_openvino import feed
from harp_jax.checkpoints.sentence_transformers import Embedding, recorded_embedding
from harp_jax.checkpoints.start import load_encoder, tokenizer_of
from harp_jax.input.packing import fit, pair_rows
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.ranking.runtimes import Batch, Result, Runtime, load_runtime
from harp_jax.text.tokenizer import NO_MARKS, Marks, Tokenizer, load_tokenizer

Pair = tuple[np.ndarray, np.ndarray]  # token or word ids of query and document, int32, truncated to the model's lengths

# Compiled row lengths; finer steps pad less and compile more, which costs more on accelerators.
CPU_STEP = 16
RUNTIME_TOKENS = 1024  # of a batch: two or three long rows, whose activations fit in a core's cache
LENGTHS = (*range(32, 192, 32), *range(192, 1 << 20, 64))  # on accelerators

SHORTEST = 8  # tokens of a row: room for part of a query and of a document
SHORTEST_TEXT = 3  # tokens of a row: one of the text, and the special tokens
KNOWN = 100_000  # cached vectors: 150 MB at 384 dimensions
POOLED = Embedding()  # the mean of hidden states, without prompts
PARTS = ("encoder", "pooler", "score")  # the subtrees of a cross-encoder's parameters that scoring reads

Item = TypeVar("Item")  # a pair, or a text


class Scorer(Protocol):
    """A trained ranker: texts to ids, ids to pairs that fit the model, pairs to scores. Implemented by `CrossEncoderScorer`,
    `BiEncoderScorer` and the `NeuralScorer` of `baselines/neural_ir`."""

    max_length: int  # tokens of a row (cross-encoder), or words of a document (neural rankers)
    truncated_queries: int  # pairs so far whose query was truncated
    truncated_documents: int  # pairs so far whose document was only partly read; counted by `best_windows`
    remedy: str  # what to do about truncated queries

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All ids of each text, int32."""

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` ids of each text, int32; by default as many as the model can read."""

    def room(self, query: np.ndarray) -> int:
        """The maximum number of document ids with this query (ids)."""

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Both (ids) truncated to the model's lengths."""

    def score(self, pairs: Sequence[Pair], bar: Progress | None = None) -> np.ndarray:
        """Scores [pairs] float32, larger is more relevant."""

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on texts to be scored (`blank`: with empty queries). Raises InputError if all scores would be equal."""

    def use(self, params: Any) -> None:
        """Replaces the parameters (device arrays of the same shapes) without recompiling; not those of a `Runtime`."""


def score_by_length(
    make_batch: Callable[[list[Item], int, int], Any],
    items: Sequence[Item],
    sizes: np.ndarray,
    lengths: Sequence[int],
    batch_tokens: int,
    bar: Progress | None = None,
    shape: tuple[int, ...] = (),
    runtime: Runtime | None = None,
) -> np.ndarray:
    """Results [items, *shape] float32, computed in batches of similar length, longest first. `make_batch(some, rows, length)`
    returns results [rows, *shape] for at most `rows` items padded to `length`, or the inputs from which a `runtime` computes them.
    `sizes` [items] int64 are the items' lengths, `lengths` the compiled lengths in increasing order, `batch_tokens` the tokens per
    batch. JAX's batches are all dispatched before the first result is read."""
    batches = (
        (chosen, make_batch([items[i] for i in chosen], len(chosen) if runtime else rows, length))
        for chosen, rows, length in batches_by_length(sizes, lengths, batch_tokens)
    )
    results = np.zeros((len(items), *shape), np.float32)
    for chosen, result in runtime(batches) if runtime else list(batches):
        results[chosen] = np.asarray(result)[: len(chosen)]
        if bar is not None:
            bar.update(len(chosen))
    return results


def batches_by_length(
    sizes: np.ndarray, lengths: Sequence[int], batch_tokens: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Batches as (item indices, rows, length), longest items first; arguments as in `score_by_length`. Rows are capped at the power
    of two (at least 8) that holds the remaining items: few items make a small batch, and few shapes are compiled. A single item,
    such as a query that is searched for, is not padded with rows."""
    waiting = np.argsort(-sizes, kind="stable")
    while len(waiting):
        length = next(n for n in lengths if n >= sizes[waiting[0]])
        most = 1 << max(3, int(len(waiting) - 1).bit_length()) if len(sizes) > 1 else 1
        rows = min(max(1, batch_tokens // length), most)
        chosen, waiting = waiting[:rows], waiting[rows:]
        yield chosen, rows, length


@dataclass(frozen=True)
class Windows:
    """At most `count` windows of a document, each starting half a window after the one before. A window is as long as the row
    without the query. The last one ends with the document, because short texts score differently."""

    count: int

    def __post_init__(self) -> None:
        at_least(1, windows=self.count or 0)

    def reach(self, max_length: int) -> int:
        """How many of a document's tokens windows of `max_length` tokens read."""
        return max_length + (self.count - 1) * max(1, max_length // 2)

    def of(self, document: np.ndarray, room: int) -> list[np.ndarray]:
        """Windows of a document's tokens [n], each at most `room` long; at least one, which may be empty."""
        needed = 1 + max(0, -(-(len(document) - room) // max(1, room // 2)))
        starts = [self.start(number, len(document), room) for number in range(min(self.count, needed))]
        return [document[start : start + room] for start in starts]

    def start(self, number: int, length: int, room: int) -> int:
        """The first token of a window of a document of `length` tokens."""
        return max(0, min(number * max(1, room // 2), length - room))


def best_windows(
    scorer: Scorer, texts: Sequence[Pair], windows: Windows | None, bar: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores [texts] float32 of untruncated (query ids, document ids), and the indices [texts] int64 of their best windows; None:
    of a document's first tokens. Raises InputError for scores that are not finite."""
    rows: list[Pair] = []
    starts: list[int] = []
    for query, document in texts:
        starts.append(len(rows))
        room = scorer.room(query)
        scorer.truncated_documents += (windows or Windows(1)).reach(room) < len(document)
        # `pair` gives a document alone the odd token of the row, and a window only its room.
        rows.extend(scorer.pair(query, part) for part in (windows.of(document, room) if windows else [document]))
    if not rows:
        return np.zeros(0, np.float32), np.zeros(0, np.int64)
    scores = scorer.score(rows, None if windows else bar)
    if not np.isfinite(scores).all():
        wrong = "the model gives scores that are not finite numbers: its weights are damaged"
        raise InputError(f"{wrong}; restore or train it again")
    if not windows:
        return scores, np.zeros(len(texts), np.int64)
    if bar is not None:
        bar.update(len(texts))
    by_text = np.split(scores, starts[1:])
    return np.array([each.max() for each in by_text]), np.array([each.argmax() for each in by_text])


class EncoderTexts:
    """Tokenizes texts for an encoder, as `Scorer` says; `max_length` defaults to the length in training. A batch has `batch_tokens`
    tokens: on a CPU few, which suit its caches, on an accelerator many, which keep it busy. `runtime` computes instead of JAX."""

    remedy = "raise --max_length"

    def __init__(
        self,
        config: EncoderConfig,
        tokenizer: Tokenizer,
        max_length: int | None,
        shortest: int,
        batch_tokens: int | None,
        runtime: Runtime | None,
    ) -> None:
        self.config, self.tokenizer, self.runtime = config, tokenizer, runtime
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not shortest <= self.max_length <= config.max_positions:
            wrong = f"the model reads {shortest} to {config.max_positions} tokens"
            raise InputError(f"max_length={self.max_length}: {wrong}")
        on_cpu = jax.default_backend() == "cpu"
        self.batch_tokens = batch_tokens or (RUNTIME_TOKENS if runtime else 4096 if on_cpu else 65536)
        steps = range(CPU_STEP, self.max_length, CPU_STEP) if on_cpu else LENGTHS
        self.lengths = (*itertools.takewhile(lambda n: n < self.max_length, steps), self.max_length)
        self.truncated_queries = self.truncated_documents = self._longest_query = 0

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        ids = [np.asarray(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]
        self._longest_query = max([self._longest_query, *map(len, ids)])
        return ids

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        # At least one token more than the longest query so far, because `packing.fit` gives the odd token to the longer text.
        limit = limit or max(self.max_length, self._longest_query + 1)
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit)]

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        return []  # subword tokenizers cover any text


def recorded_length(tokenizer: Tokenizer, config: EncoderConfig) -> int:
    """The sequence length recorded with the tokenizer, or the model's maximum if that is out of range."""
    recorded = tokenizer.max_length
    return recorded if SHORTEST <= recorded <= config.max_positions else config.max_positions


def full_precision_matmul(dtype: str) -> contextlib.AbstractContextManager:
    """For float32, disables TF32 (GPU) and bfloat16 (TPU) in matmuls, which make scores tie."""
    return jax.default_matmul_precision("highest") if dtype == "float32" else contextlib.nullcontext()


def single_rows(tokens: jax.Array, second: jax.Array, end: jax.Array) -> dict[str, jax.Array]:
    """The encoder's batch of one sequence per row; segments, positions and types are computed on the device."""
    position = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
    real = position < end[:, None]
    return {
        "tokens": tokens,
        "segment_ids": real.astype(jnp.int32),
        "position_ids": position,
        "token_type_ids": (real & (position >= second[:, None])).astype(jnp.int32),
    }


class CrossEncoderScorer(EncoderTexts):
    """Scores query and document in one row of `max_length` tokens (default: as in training), special tokens and `marks` included,
    truncated as in training (`packing.fit`). A batch has `batch_tokens` tokens, padding included."""

    def __init__(
        self,
        config: EncoderConfig,
        params: Mapping,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(config, tokenizer, max_length, SHORTEST, batch_tokens, runtime)
        self.marks = marks
        if runtime is None:
            self.use(jax.device_put({name: params[name] for name in PARTS}))

    def use(self, params: Mapping) -> None:
        self._params = {name: params[name] for name in PARTS}

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        trained = recorded_length(self.tokenizer, self.config)
        longer = f"--max_length={self.max_length}, but the model was trained with {trained} tokens and may rank longer rows worse"
        return [f"{longer}; --windows reads more of a document"] if self.max_length > trained else []

    def room(self, query: np.ndarray) -> int:
        room, query = self.max_length - self.tokenizer.template.around_pair, self.marks.on_query(query)
        return max(1, max(room - len(query), room // 2) - (self.marks.document >= 0))  # as in `packing.fit`

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length, self.tokenizer.template)
        self.truncated_queries += len(fitted[0]) < len(query)
        return fitted

    def score(self, pairs: Sequence[Pair], bar: Progress | None = None) -> np.ndarray:
        """Scores [pairs] float32: raw logits, larger is more relevant."""
        special = self.tokenizer.template.around_pair
        sizes = np.array([len(query) + len(document) + special for query, document in pairs], np.int64)

        def make_batch(pairs: list[Pair], rows: int, length: int) -> Any:
            arrays = pair_rows(pairs, rows, length, self.tokenizer)
            return feed(self.config, *arrays) if self.runtime else score_rows(self.config, self._params, *arrays)

        return score_by_length(make_batch, pairs, sizes, self.lengths, self.batch_tokens, bar, (1,), self.runtime)[:, 0]


# Compiled once per process for all models of one shape.
@partial(jax.jit, static_argnums=0)
def score_rows(
    config: EncoderConfig, params: Mapping, tokens: jax.Array, second: jax.Array, end: jax.Array
) -> jax.Array:
    """Logits [rows, 1] of one pair per row, from `PARTS`; `second`, `end` [rows]: where the document begins, and ends."""
    batch = {**single_rows(tokens, second, end), "cls_offset": jnp.zeros((len(tokens), 1), jnp.int32)}
    with full_precision_matmul(config.dtype):
        outputs: Any = Ranker(config).apply({"params": params}, batch, method="scored")
    return outputs[0]


class BiEncoderScorer(EncoderTexts):
    """Baseline: the initial encoder's cosine of pooled vectors, as sentence encoders rank. A ranker trained from this encoder has
    to beat it. Pooling, dense layers, prompts and maximum length come from the sentence-transformers directory. Texts are encoded
    separately, and recent vectors are cached. Ids are without prompts until `as_query` and `as_document` add them."""

    def __init__(
        self,
        config: EncoderConfig,
        params: Mapping,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        made: Embedding = POOLED,
        runtime: Runtime | None = None,
    ) -> None:
        self.prompt_texts = made.prompts
        # Without a prompt's final space, which the tokenizer may attach to the text's first word.
        self.prompts = [np.asarray(tokenizer.encode(text.rstrip()), np.int32) for text in made.prompts]
        shortest = SHORTEST_TEXT + max(map(len, self.prompts))
        super().__init__(config, tokenizer, max_length, shortest, batch_tokens, runtime)
        self.size = len(made.dense[-1]["bias"]) if made.dense else config.hidden
        self.made = made
        self._dense = jax.device_put(made.dense)
        self.forget()
        if runtime is None:
            self.use(jax.device_put({"encoder": params["encoder"]}))

    def use(self, params: Mapping) -> None:
        self._params = {"encoder": params["encoder"], "dense": self._dense}
        self.forget()

    def forget(self) -> None:
        """Drops the cached vectors, so that the next scores depend on their own batch alone."""
        self._known: dict[bytes, np.ndarray] = {}  # vectors of texts by their ids

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        prompted = super().encode_queries([self.prompt_texts[0] + text for text in texts])
        return [ids[len(self.prompts[0]) :] for ids in prompted]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        before = len(self.prompts[1])
        prompted = super().encode_documents([self.prompt_texts[1] + text for text in texts], limit and limit + before)
        return [ids[before:] for ids in prompted]

    def as_query(self, ids: np.ndarray) -> np.ndarray:
        """The query prompt and a query's ids, truncated to the encoder's length."""
        return np.concatenate([self.prompts[0], ids])[: self.max_length - self.tokenizer.template.around_text]

    def as_document(self, ids: np.ndarray) -> np.ndarray:
        """The document prompt and the first ids of a document or window that fit."""
        return np.concatenate([self.prompts[1], ids[: self.room(ids)]])

    def room(self, query: np.ndarray) -> int:
        return self.max_length - self.tokenizer.template.around_text - len(self.prompts[1])

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        prompted = self.as_query(query)
        self.truncated_queries += len(prompted) < len(self.prompts[0]) + len(query)
        return prompted, self.as_document(document)

    def score(self, pairs: Sequence[Pair], bar: Progress | None = None) -> np.ndarray:
        """Cosines [pairs] float32."""
        if len(self._known) > KNOWN:
            self._known.clear()
        keys = [(query.tobytes(), document.tobytes()) for query, document in pairs]
        texts = {key: text for each, pair in zip(keys, pairs) for key, text in zip(each, pair)}
        new = {key: text for key, text in texts.items() if key not in self._known}
        self._known.update(zip(new, self.vectors(list(new.values()))))
        if bar is not None:
            bar.update(len(pairs))
        sides = (np.array([self._known[each[side]] for each in keys], np.float32) for side in (0, 1))
        return np.einsum("ph,ph->p", *(side.reshape(-1, self.size) for side in sides))

    def vectors(self, texts: Sequence[np.ndarray]) -> np.ndarray:
        """Unit vectors [texts, size] float32 of token ids with their prompts, in batches of similar length."""
        template = self.tokenizer.template
        sizes = np.array([len(text) + template.around_text for text in texts], np.int64)

        def make_batch(texts: list[np.ndarray], rows: int, length: int) -> Any:
            tokens, end = np.full((rows, length), self.tokenizer.pad, np.int32), np.zeros(rows, np.int32)
            for row, text in enumerate(texts):
                line = (*template.start, *text, *template.alone)
                end[row] = len(line)
                tokens[row, : end[row]] = line
            if self.runtime:
                return feed(self.config, tokens, end, end)
            return embed_rows(self.config, Embedding(self.made.pooling, self.made.steps), self._params, tokens, end)

        def pooling(run: Runtime, batches: Iterable[Batch]) -> Iterator[Result]:
            for chosen, hidden in run(batches):
                yield chosen, pooled(np, hidden, sizes[chosen], self.made, self.made.dense)

        run = partial(pooling, self.runtime) if self.runtime else None
        return score_by_length(make_batch, texts, sizes, self.lengths, self.batch_tokens, None, (self.size,), run)


def sentence_encoder(
    directory: str,
    dtype: str = "float32",
    max_length: int | None = None,
    batch_tokens: int | None = None,
    backend: str = "auto",
) -> BiEncoderScorer:
    """The encoder of a Hugging Face directory or a training workdir, computed by the fastest installed backend (`load_runtime`).
    Raises InputError if there is none."""
    config, params, tokenizer, made = load_sentence_encoder(directory)
    runtime = load_runtime(backend, dtype, directory, config, {"encoder": params["encoder"]}, tokenizer)
    shape = config if runtime else config.computing_in(dtype)
    return BiEncoderScorer(shape, params, tokenizer, max_length or made.max_length, batch_tokens, made, runtime)


def load_sentence_encoder(directory: str) -> tuple[EncoderConfig, dict[str, Any], Tokenizer, Embedding]:
    """Encoder, parameters, tokenizer, and how vectors are made of hidden states, with the tokens of a text that are read."""
    config, params = load_encoder(directory)
    tokenizer = load_tokenizer(tokenizer_of(directory))
    check_vocabulary(tokenizer, config, directory)
    made = recorded_embedding(directory, config.hidden)
    if any(made.prompts):
        tell_prompts(directory, *made.prompts)
    recorded = recorded_length(tokenizer, config)
    return config, params, tokenizer, made._replace(max_length=min(made.max_length or recorded, recorded))


@cache  # once, however often a command loads the encoder
def tell_prompts(directory: str, query: str, document: str) -> None:
    print(f"note: {directory} puts {query!r} before queries and {document!r} before documents", file=sys.stderr)


@partial(jax.jit, static_argnums=(0, 1))
def embed_rows(config: EncoderConfig, made: Embedding, params: Mapping, tokens: jax.Array, end: jax.Array) -> jax.Array:
    """Unit vectors [rows, size] float32 of one text per row, by the pooling and steps of `made`; `end` [rows] is its length."""
    with full_precision_matmul(config.dtype):
        batch = single_rows(tokens, end, end)
        hidden: Any = Ranker(config).apply({"params": {"encoder": params["encoder"]}}, batch, True, method="encode")
        return pooled(jnp, hidden.astype(jnp.float32), end, made, params["dense"])


def pooled(xp: Any, hidden: Any, end: Any, made: Embedding, dense: Sequence[Mapping[str, Any]]) -> Any:
    """Unit vectors [rows, size] float32 of hidden states [rows, length, hidden] float32, in numpy or jax.numpy (`xp`): the first
    token's or the mean of `end` [rows] tokens, then the dense layers."""
    real = xp.arange(hidden.shape[1]) < end[:, None]
    mean = (hidden * real[..., None]).sum(1) / xp.maximum(end, 1)[:, None]
    vector, layers = hidden[:, 0] if made.pooling == "cls" else mean, iter(dense)
    for step in (*made.steps, "Normalize"):
        if step == "Normalize":
            vector /= xp.maximum(xp.linalg.norm(vector, axis=1, keepdims=True), 1e-9)
            continue
        layer = next(layers)
        vector = vector @ layer["kernel"] + layer["bias"]
        vector = xp.tanh(vector) if step == "Tanh" else vector
    return vector
