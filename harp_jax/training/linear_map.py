"""A linear map of an encoder's vectors, learned from links: every text is embedded once, and only the map is trained.

    v(x) = W e(x) / |W e(x)|                                   e: the encoder's unit vectors, of queries and pages alike
    L    = -1/n Σᵢ log (exp sᵢᵢ / Σ_{a ∈ Aᵢ} exp sᵢₐ),  sᵢⱼ = v(qᵢ)·v(dⱼ) / τ

Aᵢ are the page of query i and the pages of the batch that may be its negatives (objectives/contrastive.py); W starts as the
identity. Embedding the texts takes nearly all of the time. Vectors that are stored already need no encoder: W and a new length of 1
make them those of the adapted one.
"""

import math
from dataclasses import dataclass
from itertools import chain, zip_longest

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from harp_jax.base.errors import InputError, at_least
from harp_jax.base.files import check_replaceable
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import say
from harp_jax.checkpoints.huggingface import save_vectors
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.records import SPLITS, TEXT_TASK, job_tokenizer, read_manifest
from harp_jax.input.tfrecords import RecordReader
from harp_jax.model.products import fastest_dtype
from harp_jax.objectives.contrastive import LOWEST, comparable
from harp_jax.ranking.scorers import load_sentence_encoder
from harp_jax.ranking.vectors import Retriever

HELD_OUT = 20  # one in so many pairs is not trained on, at least one
MAX_TOKENS = 1 << 15  # of a text, before the encoder's own maximum
CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
---

# {name}, adapted to links

A linear map of the vectors of {name}, trained by harp_jax on {pairs:,} pairs of the words around a link and the linked page.
The last dense layer is the map: vectors of {name} that are stored already become those of this model by multiplying them with its
weight, and scaling them to length 1. The linked page was the nearest of {pages:,} for {before:.3f} of held-out links before, for
{after:.3f} with the map.
"""


@dataclass(frozen=True)
class MapOptions:
    """pairs: output of a generation job; encoder: the sentence encoder to adapt.

    max_pairs: pairs that are embedded and trained on; batch_pairs, steps, learning_rate, temperature (τ): of the training.
    """

    pairs: InputPath
    encoder: InputPath
    max_pairs: int = 20_000
    batch_pairs: int = 256
    steps: int = 800
    learning_rate: float = 1e-4
    temperature: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, max_pairs=self.max_pairs or 0, steps=self.steps or 0)
        at_least(2, batch_pairs=self.batch_pairs or 0)
        for name in ("learning_rate", "temperature"):
            value = getattr(self, name)
            if not isinstance(value, float | int) or not 0 < value < math.inf:
                raise InputError(f"{name}={value!r}: use a number above 0")


@dataclass(frozen=True)
class Pairs:
    """Queries and pages as texts; `page` [pairs] int32: the page of each query; identities [pairs, 4] int32 as in `comparable`."""

    queries: list[str]
    pages: list[str]
    page: np.ndarray
    identities: np.ndarray


@dataclass(frozen=True)
class Adapted:
    """The share of held-out links whose page is the nearest of `pages`, before and after."""

    pairs: int
    pages: int
    before: float
    after: float

    def words(self) -> str:
        return f"of {self.pages:,} pages, the linked one is nearest for {self.before:.3f} → {self.after:.3f} of held-out links"


@once
def adapt(options: MapOptions, output: str) -> Adapted:
    """Writes the encoder with a map that is trained on the pairs, as a sentence-transformers directory. Raises InputError for
    pairs without another page to compare with, and for an encoder whose pooling is not known."""
    return train_map(options, output)


def train_map(options: MapOptions, output: str) -> Adapted:
    """`adapt`, each time that it is called."""
    check_replaceable(output)
    shape, params, tokenizer, made = load_sentence_encoder(options.encoder)
    if not made.recorded:
        wrong = "does not record how it pools hidden states (1_Pooling); use a sentence encoder"
        raise InputError(f"{options.encoder} {wrong}")
    pairs = read_pairs(options)
    say(f"embeds {len(pairs.queries):,} queries and {len(pairs.pages):,} pages")
    retriever = Retriever.from_pretrained(options.encoder, fastest_dtype(jax.default_backend()), backend="auto")
    queries, pages = retriever.encode(pairs.queries, as_queries=True), retriever.encode(pairs.pages)

    trained = slice(-(-len(queries) // HELD_OUT), None)
    matrix = fit_map(queries[trained], pages, pairs.page[trained], pairs.identities[trained], options)
    if not np.isfinite(matrix).all():
        given = f"{options.learning_rate:g} and {options.temperature:g}"
        raise InputError(f"the map is not finite; use another learning_rate or temperature than {given}")
    held_out = queries[: trained.start], pages, pairs.page[: trained.start]
    before, after = nearest_share(np.eye(len(matrix)), *held_out), nearest_share(matrix, *held_out)
    result = Adapted(len(queries) - trained.start, len(pages), round(before, 4), round(after, 4))

    layer = {"kernel": matrix.T, "bias": np.zeros(len(matrix), np.float32)}
    adapted = made._replace(steps=(*made.steps, "Identity", "Normalize"), dense=(*made.dense, layer))
    name = options.encoder.rstrip("/").rpartition("/")[2]
    card = CARD.format(name=name, pairs=result.pairs, pages=result.pages, before=before, after=after)
    save_vectors(output, shape, params, tokenizer, adapted, card)
    return result


def read_pairs(options: MapOptions) -> Pairs:
    """Training pairs, at most `max_pairs`, the same number of each task, drawn by the seed."""
    manifest = read_manifest(options.pairs)
    tokenizer = job_tokenizer(options.pairs, manifest)
    names = (name.rpartition("_") for name in manifest["splits"])
    tasks = tuple(task for task, _, split in names if split == SPLITS[0] and task != TEXT_TASK)
    if not tasks:
        raise InputError(f"{options.pairs} has no training pairs; generate some with a task such as adp")
    texts = SeparateTexts(MAX_TOKENS, tokenizer.template)
    sources, template = (options.pairs,), tokenizer.template
    reader = RecordReader(
        sources, tasks, SPLITS[0], 1, MAX_TOKENS, "", options.seed, template, negatives=0, separate=texts
    )
    share = options.max_pairs // len(tasks)
    by_task = (reader.read(0, task, 0, min(share, reader.sizes[task])) for task in tasks)
    in_turns = chain.from_iterable(zip_longest(*by_task))  # so that links of every task are held out
    groups = [group for group in in_turns if group and len(group.sequences) == 2]  # a page may be empty

    numbers: dict[bytes, int] = {}
    page = [numbers.setdefault(group.sequences[1].query.tobytes(), len(numbers)) for group in groups]
    if len(numbers) < 2:
        raise InputError(
            f"{options.pairs} has pairs of {len(numbers)} pages, and a page is compared with others; generate more"
        )
    return Pairs(
        [tokenizer.decode(group.sequences[0].query.tolist()) for group in groups],
        [tokenizer.decode(np.frombuffer(ids, np.int32).tolist()) for ids in numbers],
        np.array(page, np.int32),
        np.array([group.identities for group in groups], np.int32),
    )


def fit_map(
    queries: np.ndarray, pages: np.ndarray, page: np.ndarray, identities: np.ndarray, options: MapOptions
) -> np.ndarray:
    """W [size, size] float32 from unit vectors [pairs, size], [pages, size] float32 and the `page` [pairs] of each query."""
    batch = min(options.batch_pairs, len(queries))
    optimizer = optax.adam(optax.linear_schedule(options.learning_rate, 0.0, options.steps))
    key = jax.random.key(options.seed)

    def loss(matrix: jax.Array, asked: jax.Array, told: jax.Array, identity: jax.Array) -> jax.Array:
        allowed, _ = comparable(jnp.ones((batch, 2), bool), identity)
        logits = mapped(matrix, asked) @ mapped(matrix, told).T / options.temperature
        logits = jnp.where(allowed, logits, LOWEST)
        return (jax.nn.logsumexp(logits, axis=1) - jnp.diagonal(logits)).mean()

    @jax.jit
    def fitted(queries: jax.Array, pages: jax.Array, page: jax.Array, identities: jax.Array) -> jax.Array:
        def step(number: jax.Array, state: tuple[jax.Array, optax.OptState]) -> tuple[jax.Array, optax.OptState]:
            chosen = jax.random.choice(jax.random.fold_in(key, number), len(queries), (batch,), replace=False)
            gradient = jax.grad(loss)(state[0], queries[chosen], pages[page[chosen]], identities[chosen])
            updates, moments = optimizer.update(gradient, state[1])
            return optax.apply_updates(state[0], updates), moments  # type: ignore[return-value]

        matrix = jnp.eye(queries.shape[1], dtype=jnp.float32)
        return lax.fori_loop(0, options.steps, step, (matrix, optimizer.init(matrix)))[0]

    with jax.default_matmul_precision("highest"):
        return np.asarray(fitted(*map(jnp.asarray, (queries, pages, page, identities))))


@jax.jit
def mapped(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """W e / |W e| of vectors [n, size]."""
    vectors = vectors @ matrix.T
    return vectors * lax.rsqrt(jnp.maximum(jnp.square(vectors).sum(-1, keepdims=True), 1e-18))


def nearest_share(matrix: np.ndarray, queries: np.ndarray, pages: np.ndarray, page: np.ndarray) -> float:
    """The share of queries whose page is the nearest of all; 0 without queries."""
    mine, theirs = (np.asarray(mapped(jnp.asarray(matrix, jnp.float32), jnp.asarray(x))) for x in (queries, pages))
    return float(((mine @ theirs.T).argmax(1) == page).mean()) if len(page) else 0.0
