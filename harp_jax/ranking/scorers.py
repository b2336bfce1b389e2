"""Rankers: the `Scorer` interface, and its JAX versions: cross-encoders and bi-encoders (cosines).

Encoder texts are tokenized and truncated here, as in training; `runtimes` scores the same pairs without JAX. Pairs are scored
in batches of few shapes (`score_by_length`). A long document is scored by its first tokens (FirstP), or by the best of several
windows (MaxP, Dai and Callan 2019: `best_of`).
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.progress import Progress
from harp_jax.checkpoints.huggingface import check_vocabulary
from harp_jax.checkpoints.modular import Embedding
from harp_jax.checkpoints.sentence_transformers import recorded_embedding
from harp_jax.checkpoints.start import load_encoder, load_ranker, tokenizer_of
from harp_jax.input.packing import fit, pair_rows
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.text.tokenizer import NO_MARKS, Marks, Tokenizer, load_tokenizer

Pair = tuple[np.ndarray, np.ndarray]  # token or word ids of query and document, int32, truncated to the model's lengths

# Compiled row lengths; finer steps pad less and compile more. On real candidates, steps of 16 fill 91 to 95 % of the slots.
# Accelerators, where compiling costs more, use larger steps (85 %).
CPU_STEP = 16
LENGTHS = (*range(32, 192, 32), *range(192, 1 << 20, 64))  # on accelerators

SHORTEST = 8  # tokens of a row: room for part of a query and of a document
SHORTEST_TEXT = 3  # tokens of a row: one of the text, and the special tokens
KNOWN = 100_000  # cached vectors: 150 MB at 384 dimensions
POOLED = Embedding()  # the mean of hidden states, without prompts
PARTS = ("encoder", "pooler", "score")  # the subtrees of a cross-encoder's parameters that scoring reads


class Scorer(Protocol):
    """A trained ranker: texts to ids, ids to pairs that fit the model, pairs to scores. Implemented by `CrossEncoderScorer`,
    `RuntimeScorer`, `BiEncoderScorer` and the `NeuralScorer` of `baselines/neural_ir`."""

    max_length: int  # tokens of a row (cross-encoder), or words of a document (neural rankers)
    truncated_queries: int  # pairs so far whose query was truncated
    truncated_documents: int  # pairs so far whose document was only partly read; counted by `best_of`
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


Item = TypeVar("Item")  # a pair, or a text


class JaxScorer(Scorer, Protocol):
    """All but `RuntimeScorer`, whose parameters are fixed in the model file."""

    def use(self, params: Any) -> None:
        """Replaces the parameters (device arrays of the same shapes) without recompiling."""


def score_by_length(
    score_batch: Callable[[list[Item], int, int], jax.Array],
    items: Sequence[Item],
    sizes: np.ndarray,
    lengths: Sequence[int],
    batch_tokens: int,
    bar: Progress | None = None,
    shape: tuple[int, ...] = (),
) -> np.ndarray:
    """Results [items, *shape] float32, computed in batches of similar length, longest first. `score_batch(some, rows, length)`
    returns results [rows, *shape] for at most `rows` items padded to `length`. `sizes` [items] int64 are the items' lengths,
    `lengths` the compiled lengths in increasing order, `batch_tokens` the tokens per batch. All batches are dispatched before the
    first result is read."""
    sent = [
        (chosen, score_batch([items[i] for i in chosen], rows, length))
        for chosen, rows, length in batches_by_length(sizes, lengths, batch_tokens)
    ]
    results = np.zeros((len(items), *shape), np.float32)
    for chosen, result in sent:
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
        rows = (
            min(max(1, batch_tokens // length), 1 << max(3, int(len(waiting) - 1).bit_length()))
            if len(sizes) > 1
            else 1
        )
        chosen, waiting = waiting[:rows], waiting[rows:]
        yield chosen, rows, length


@dataclass(frozen=True)
class Windows:
    """At most `count` windows of a document, each starting half a window after the one before. A window is as long as the row
    without the query. The last one ends with the document, because short texts score differently."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"windows={self.count}: use 1 or more")

    def reach(self, max_length: int) -> int:
        """Upper bound of the document tokens that are read."""
        return max_length + (self.count - 1) * max(1, max_length // 2)

    def of(self, document: np.ndarray, room: int) -> list[np.ndarray]:
        """Windows of a document's tokens [n], each at most `room` long; at least one, which may be empty."""
        stride = max(1, room // 2)
        windows = [document[:room]]
        while len(windows) < self.count and (len(windows) - 1) * stride + room < len(document):
            start = self.start(len(windows), len(document), room)
            windows.append(document[start : start + room])
        return windows

    def start(self, number: int, length: int, room: int) -> int:
        """The first token of a window of a document of `length` tokens."""
        return max(0, min(number * max(1, room // 2), length - room))

    def end(self, length: int, room: int) -> int:
        """How many of a document's `length` tokens the windows read."""
        return min(length, room + (self.count - 1) * max(1, room // 2))


def best_of(scorer: Scorer, texts: Sequence[Pair], windows: Windows | None, bar: Progress | None = None) -> np.ndarray:
    """Scores [texts] float32 of untruncated (query ids, document ids): of the first tokens, or of the best window. Raises
    InputError for scores that are not finite."""
    if windows is None:
        _count_truncated(scorer, texts, Windows(1))
        return _finite(scorer.score([scorer.pair(query, document) for query, document in texts], bar))
    scores, _ = best_windows(scorer, texts, windows)
    if bar is not None:
        bar.update(len(texts))
    return scores


def best_windows(scorer: Scorer, texts: Sequence[Pair], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Scores [texts] float32 of untruncated (query ids, document ids), and the indices [texts] int64 of their windows. Raises
    InputError for scores that are not finite."""
    _count_truncated(scorer, texts, windows)
    rows: list[Pair] = []
    starts: list[int] = []
    for query, document in texts:
        starts.append(len(rows))
        rows.extend(scorer.pair(query, window) for window in windows.of(document, scorer.room(query)))
    if not rows:
        return np.zeros(0, np.float32), np.zeros(0, np.int64)
    by_text = np.split(_finite(scorer.score(rows)), starts[1:])
    return np.array([each.max() for each in by_text]), np.array([each.argmax() for each in by_text])


def _finite(scores: np.ndarray) -> np.ndarray:
    if not np.isfinite(scores).all():
        wrong = "the model gives scores that are not finite numbers: its weights are damaged"
        raise InputError(f"{wrong}; restore or train it again")
    return scores


def _count_truncated(scorer: Scorer, texts: Sequence[Pair], windows: Windows) -> None:
    scorer.truncated_documents += sum(
        windows.end(len(document), scorer.room(query)) < len(document) for query, document in texts
    )


class EncoderTexts:
    """Tokenizes texts for an encoder; `max_length` defaults to the length in training."""

    remedy = "raise --max_length"

    def __init__(self, config: EncoderConfig, tokenizer: Tokenizer, max_length: int | None, shortest: int) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not shortest <= self.max_length <= config.max_positions:
            wrong = f"the model reads {shortest} to {config.max_positions} tokens"
            raise InputError(f"max_length={self.max_length}: {wrong}")
        on_cpu = jax.default_backend() == "cpu"
        steps = range(CPU_STEP, self.max_length, CPU_STEP) if on_cpu else LENGTHS
        self.lengths = (*itertools.takewhile(lambda n: n < self.max_length, steps), self.max_length)
        self.truncated_queries = self.truncated_documents = self._longest_query = 0

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All token ids of each text, int32."""
        ids = [np.asarray(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]
        self._longest_query = max([self._longest_query, *map(len, ids)])
        return ids

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` token ids of each text, int32. Default: as many as fit in a row, but at least one more than the longest
        query so far, because `packing.fit` gives the odd token to the longer text."""
        limit = limit or max(self.max_length, self._longest_query + 1)
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit)]

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """No notes: subword tokenizers cover any text."""
        return []


class PairTexts(EncoderTexts):
    """Query and document with special tokens in one row of `max_length` tokens, truncated as in training (`packing.fit`)."""

    def __init__(
        self, config: EncoderConfig, tokenizer: Tokenizer, max_length: int | None, marks: Marks = NO_MARKS
    ) -> None:
        super().__init__(config, tokenizer, max_length, SHORTEST)
        self.marks = marks

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """A note if rows are longer than in training: a 3-layer model trained at 80 lost a quarter of RR@10 at 160."""
        trained = recorded_length(self.tokenizer, self.config)
        if self.max_length <= trained:
            return []
        return [
            f"--max_length={self.max_length}, but the model was trained with {trained} tokens and may rank longer rows worse; "
            "--windows reads more of a document"
        ]

    def room(self, query: np.ndarray) -> int:
        """Document tokens that fit in a row with this query: at least half of the row (`packing.fit`)."""
        room, query = self.max_length - self.tokenizer.template.around_pair, self.marks.on_query(query)
        return max(1, max(room - len(query), room // 2) - (self.marks.document >= 0))

    def row_sizes(self, pairs: Iterable[Pair]) -> np.ndarray:
        """Row lengths [pairs] int64, including special tokens."""
        special = self.tokenizer.template.around_pair
        return np.array([len(query) + len(document) + special for query, document in pairs], np.int64)

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Adds the marks and truncates the pair to the row."""
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length, self.tokenizer.template)
        self.truncated_queries += len(fitted[0]) < len(query)
        return fitted


def recorded_length(tokenizer: Tokenizer, config: EncoderConfig) -> int:
    """The sequence length recorded with the tokenizer, or the model's maximum if that is out of range."""
    recorded = tokenizer.max_length
    return recorded if SHORTEST <= recorded <= config.max_positions else config.max_positions


def token_budget(batch_tokens: int | None) -> int:
    """Tokens per batch: small batches suit a CPU's caches, large ones keep an accelerator busy."""
    return batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)


class CrossEncoderScorer(PairTexts):
    """Scores one pair per row. `max_length` (default: as in training) includes special tokens; a batch has `batch_tokens` tokens,
    padding included."""

    def __init__(
        self,
        config: EncoderConfig,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
    ) -> None:
        check_heads(params)
        super().__init__(config, tokenizer, max_length, marks)
        self.batch_tokens = token_budget(batch_tokens)
        self.use(jax.device_put({name: params[name] for name in PARTS}))
        self._score = jax.jit(partial(_score_rows, config))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "CrossEncoderScorer":
        """Loads a Hugging Face directory with a one-label classifier, such as an export, or a training workdir. A workdir scores
        like its export: with the selected parameters, length and marks."""
        config, params, tokenizer, marks = load_ranker(directory)
        return cls(config.computing_in(dtype), params, tokenizer, max_length, batch_tokens, marks)

    def use(self, params: Mapping[str, Any]) -> None:
        """See `JaxScorer.use`."""
        self._params = {name: params[name] for name in PARTS}

    def score(self, pairs: Sequence[Pair], bar: Progress | None = None) -> np.ndarray:
        """Scores [pairs] float32: raw logits, larger is more relevant."""
        return score_by_length(self._score_batch, pairs, self.row_sizes(pairs), self.lengths, self.batch_tokens, bar)

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs padded to `length` tokens; unused rows have length 0."""
        tokens, second, end = pair_rows(pairs, rows, length, self.tokenizer)
        return self._score(self._params, tokens, second, end)


def check_heads(params: Mapping[str, Any]) -> None:
    """Raises InputError for an encoder without the pooler and score heads."""
    missing = {"pooler", "score"} - set(params)
    if missing:
        raise InputError(
            f"the model has no {' and no '.join(sorted(missing))}: it is an encoder; use a fine-tuned or pre-trained export, or "
            "rank by the encoder's vectors (harp rerank --cosine)"
        )


def _score_rows(config: EncoderConfig, params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
    """Scores [rows] of one sequence per row."""
    batch = {**_batch(tokens, second, end), "cls_offset": jax.numpy.zeros((tokens.shape[0], 1), jax.numpy.int32)}
    with full_precision_matmul(config.dtype):
        outputs: Any = Ranker(config).apply({"params": params}, batch, method="scored")
    return outputs[0][:, 0]


def full_precision_matmul(dtype: str) -> contextlib.AbstractContextManager:
    """For float32, disables TF32 (GPU) and bfloat16 (TPU) in matmuls, which make scores tie."""
    return jax.default_matmul_precision("highest") if dtype == "float32" else contextlib.nullcontext()


def _batch(tokens: jax.Array, second: jax.Array, end: jax.Array) -> dict[str, jax.Array]:
    """The encoder's batch of one sequence per row; segments, positions and types are computed on the device."""
    jnp = jax.numpy
    position = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
    real = position < end[:, None]
    return {
        "tokens": tokens,
        "segment_ids": real.astype(jnp.int32),
        "position_ids": position,
        "token_type_ids": (real & (position >= second[:, None])).astype(jnp.int32),
    }


class BiEncoderScorer(EncoderTexts):
    """Baseline: the initial encoder's cosine of pooled vectors, as sentence encoders rank. A ranker trained from this encoder has
    to beat it. Pooling, dense layers, prompts and maximum length come from the sentence-transformers directory. Texts are encoded
    separately, and recent vectors are cached."""

    def __init__(
        self,
        config: EncoderConfig,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        made: Embedding = POOLED,
    ) -> None:
        self.prompt_texts = made.prompts
        # Without a prompt's final space, which the tokenizer may attach to the text's first word.
        self.prompts = [np.asarray(tokenizer.encode(text.rstrip()), np.int32) for text in made.prompts]
        super().__init__(config, tokenizer, max_length, SHORTEST_TEXT + max(map(len, self.prompts)))
        self.batch_tokens = token_budget(batch_tokens)
        self.size = len(made.dense[-1]["bias"]) if made.dense else config.hidden
        self._dense = jax.device_put(made.dense)
        self.use(jax.device_put({"encoder": params["encoder"]}))
        self._embed = jax.jit(partial(_embed_rows, config, made.pooling, made.steps))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "BiEncoderScorer":
        """Loads the encoder of a Hugging Face directory or a training workdir; heads are not needed."""
        config, params = load_encoder(directory)
        tokenizer = load_tokenizer(tokenizer_of(directory))
        check_vocabulary(tokenizer, config, directory)
        made = recorded_embedding(directory, config.hidden)
        if any(made.prompts):
            query, document = made.prompts
            print(f"note: {directory} puts {query!r} before queries and {document!r} before documents", file=sys.stderr)
        recorded = recorded_length(tokenizer, config)
        length = max_length or min(made.max_length or recorded, recorded)
        return cls(config.computing_in(dtype), params, tokenizer, length, batch_tokens, made)

    def use(self, params: Mapping[str, Any]) -> None:
        """See `JaxScorer.use`."""
        self._params = {"encoder": params["encoder"], "dense": self._dense}
        self.forget()

    def forget(self) -> None:
        """Drops the cached vectors, so that the next scores depend on their own batch alone."""
        self._known: dict[bytes, np.ndarray] = {}  # vectors of texts by their ids

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All token ids of each text, int32, without the query prompt; `as_query` adds it."""
        prompted = super().encode_queries([self.prompt_texts[0] + text for text in texts])
        return [ids[len(self.prompts[0]) :] for ids in prompted]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """As `EncoderTexts.encode_documents`, without the document prompt; `as_document` adds it to each window."""
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
        """Maximum document tokens, for any query."""
        return self.max_length - self.tokenizer.template.around_text - len(self.prompts[1])

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Both texts with their prompts, truncated to the encoder's length."""
        asked = self.as_query(query)
        self.truncated_queries += len(asked) < len(self.prompts[0]) + len(query)
        return asked, self.as_document(document)

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
        sizes = np.array([len(text) + self.tokenizer.template.around_text for text in texts], np.int64)
        return score_by_length(self._embed_batch, texts, sizes, self.lengths, self.batch_tokens, shape=(self.size,))

    def _embed_batch(self, texts: list[np.ndarray], rows: int, length: int) -> jax.Array:
        """Unit vectors [rows, size] of texts padded to `length` tokens."""
        tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
        end = np.zeros(rows, np.int32)
        for row, text in enumerate(texts):
            line = (*self.tokenizer.template.start, *text, *self.tokenizer.template.alone)
            end[row] = len(line)
            tokens[row, : end[row]] = line
        return self._embed(self._params, tokens, end)


def _embed_rows(
    config: EncoderConfig, pooling: str, steps: tuple[str, ...], params: dict, tokens: jax.Array, end: jax.Array
) -> jax.Array:
    """Unit vectors [rows, size] float32 of one text per row; `end` [rows] is its length."""
    jnp = jax.numpy
    batch = _batch(tokens, end, end)
    dense = iter(params["dense"])
    with full_precision_matmul(config.dtype):
        hidden: Any = Ranker(config).apply({"params": {"encoder": params["encoder"]}}, batch, True, method="encode")
        hidden = hidden.astype(jnp.float32)
        mean = (hidden * batch["segment_ids"][..., None]).sum(1) / jnp.maximum(end, 1)[:, None]
        vector = hidden[:, 0] if pooling == "cls" else mean
        for step in (*steps, "Normalize"):
            if step == "Normalize":
                vector /= jnp.maximum(jnp.linalg.norm(vector, axis=1, keepdims=True), 1e-9)
                continue
            layer = next(dense)
            vector = vector @ layer["kernel"] + layer["bias"]
            vector = jnp.tanh(vector) if step == "Tanh" else vector
    return vector
