"""Training of a neural ranker on judged queries, on one device: words, model, groups, optimizer, step, state, loop.

In the workdir: config.json, the vocabulary, metrics.jsonl, `state.npz` (the newest checkpoint), `selected/` (with `select`).
"""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.base.files import full_disk_refused
from harp_jax.base.progress import progress
from harp_jax.base.randomness import generator
from harp_jax.baselines.neural_ir.models import NeuralConfig, WordTables, build, init_params, word_tables
from harp_jax.baselines.neural_ir.scorer import NeuralScorer, known_words, padded, read_state, save_state
from harp_jax.baselines.neural_ir.words import WordVocabulary, count_words, load_words, read_stopwords, read_vectors
from harp_jax.config import check_training
from harp_jax.corpus.documents import Documents
from harp_jax.input.ranking_groups import RankingData, RankingDataset, held_out
from harp_jax.objectives.losses import ranking_loss
from harp_jax.ranking.selection import Selection
from harp_jax.training.stages.stage import check_inputs
from harp_jax.training.train import TrainResult, add, last_logged, make_optimizer, schedule, stopped_by_sigterm
from harp_jax.training.workdir import MetricsLog, claim_workdir

log = logging.getLogger(__name__)

# Changes to the defaults of `NeuralConfig`, which are the papers'. DUET's paper has 300 filters and hidden units, for 200,000
# training queries.
SIZES: dict[str, dict[str, Any]] = {"duet": {"filters": 64, "hidden": 64, "dropout": 0.2}}
LANGUAGE = "english"  # for stemming and stopwords, if no vocabulary is given
LEAST_KNOWN = 0.05  # share of the training texts' words that the vocabulary must have


def train(config: ConfigDict, workdir: str) -> TrainResult:
    """Train the ranker to its last step, resuming from the workdir. Raises InputError for bad config or data."""
    check_training(config)
    check_inputs(config, "docs", "queries", "qrels", "candidates")
    if "://" in workdir or jax.process_count() > 1:
        raise InputError(f"{workdir}: a neural ranker trains in one process and in a local directory; use these")
    keep_compiled()

    # The words, those of the documents if no vocabulary is given, and the model's shape.
    if config.tokenizer:
        words = load_words(config.tokenizer)
    else:
        texts = Documents.open(config.docs, tuple(config.fields)).texts()
        words = count_words(texts, LANGUAGE, stopwords=read_stopwords(LANGUAGE))
    shape, vectors = shape_of(config, words)

    # Groups of a query, its relevant document and negatives. The queries for `select` are held out from training.
    judged, selection = RankingDataset.read(config), None
    if config.select:
        judged, selected_on = held_out(config, judged)
        selection = Selection(
            config, selected_on, workdir, lambda params: NeuralScorer(shape, params, words),
            lambda directory, params: save_state(directory, {"params": params}),
        )  # fmt: skip
    data = RankingData(config, words, judged)
    check_words(data, words)
    batches = GroupBatches(data, max(1, round(config.batch_pairs / config.negatives)), shape.query_length)
    steps = config.steps or math.ceil(config.epochs * batches.per_epoch)

    # The optimizer, the step (a pure function of its arguments and the seed), and the initial parameters.
    optimizer, rate = make_optimizer(config, steps), schedule(config, steps)
    loss = partial(group_loss, build(shape), word_tables(shape, words), config.rank_loss)

    @jax.jit
    def step(params: dict, opt_state: optax.OptState, number: int, batch: dict) -> tuple:
        key = jax.random.fold_in(jax.random.key(config.seed + 1), number)
        (_, sums), grads = jax.value_and_grad(loss, has_aux=True)(params, batch, key)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, sums

    params = jax.jit(lambda key: init_params(shape, key))(jax.random.key(config.seed))
    if vectors is not None and "vectors" in params:
        params["vectors"] = jnp.asarray(vectors)

    with contextlib.ExitStack() as cleanup:
        # The workdir, locked, and its newest state.
        cleanup.enter_context(full_disk_refused(workdir))
        lock = claim_workdir(workdir, config, {"neural_ir": dataclasses.asdict(shape)}, words)
        if lock is not None:
            cleanup.callback(lock.close)
        params, opt_state, start = restored(workdir, params, optimizer.init(params))
        metrics = cleanup.enter_context(contextlib.closing(MetricsLog(workdir, start or -1)))
        bar = cleanup.enter_context(progress(total=steps, initial=start, unit="steps", desc=config.model.name))
        stop = cleanup.enter_context(stopped_by_sigterm())

        # The loop; after SIGTERM it saves and ends.
        if start == 0 and selection is not None:
            metrics.write(0, selection(params, 0), "validation")
        pending, since, last, number = [], time.perf_counter(), last_logged(workdir), start
        for number, batch in zip(range(start + 1, steps + 1), batches.after(start)):
            params, opt_state, sums = step(params, opt_state, number - 1, batch)
            pending.append(sums)
            bar.update(1)
            if number % config.log_every == 0 or number == steps:
                total, done = add(jax.device_get(pending)), len(pending)
                last = {
                    "loss": total["loss"] / done,
                    "pair_accuracy": total["right"] / max(total["pairs"], 1.0),
                    "pairs_per_step": total["pairs"] / done,
                    "seconds_per_step": (time.perf_counter() - since) / done,
                    "learning_rate": float(rate(number - 1)),
                }
                metrics.write(number, last)
                if not math.isfinite(last["loss"]):
                    wrong = f"step {number}: the loss is not finite"
                    raise InputError(f"{wrong}; lower learning_rate={config.learning_rate}")
                pending, since = [], time.perf_counter()
            if selection is not None and (number % config.eval_every == 0 or number == steps):
                metrics.write(number, selection(params, number), "validation")
            if number % config.checkpoint_every == 0 or number == steps or stop.is_set():
                save_state(workdir, {"params": params, "opt_state": opt_state, "step": number})
            if stop.is_set():
                break
        return TrainResult(last, interrupted=number < steps)


def shape_of(config: ConfigDict, words: WordVocabulary) -> tuple[NeuralConfig, np.ndarray | None]:
    """The model's shape, and the word vectors [words, dimension] of `config.vectors`. InputError for options without effect."""
    name = config.model.name
    frozen = name == "drmm" or not config.model.train_vectors
    for wrong, message in (
        (config.select and not config.eval_every, "select needs evaluations; set --config.eval_every"),
        (name == "duet" and config.vectors, "vectors: DUET reads n-graphs, not word vectors; remove the option"),
        (frozen and config.weight_decay, "weight_decay would shrink word vectors that are not trained; set it to 0"),
    ):
        if wrong:
            raise InputError(message)
    sizes = {**SIZES.get(name, {}), **config.model.to_dict()}
    shape = NeuralConfig(vocab_size=words.size, document_length=config.row_length, **sizes)
    if config.vectors:
        vectors, known = read_vectors(config.vectors, words, config.seed)
        log.info("%d of %d words have a vector in %s", known, len(words.words), config.vectors)
        return dataclasses.replace(shape, dimension=vectors.shape[1]), vectors
    if frozen and name != "duet":
        log.warning(
            "the word vectors are random and are not trained: their cosines mean nothing beyond exact matches; set "
            "--config.vectors to trained ones (`harp words --vectors`)"
        )
    return shape, None


def check_words(data: RankingData, words: WordVocabulary) -> None:
    """Warns if the vocabulary has less than half of the words of the training texts; InputError if it has almost none."""
    queries = dict.fromkeys(qid for qid, _ in data.units)
    # The relevant documents and a candidate of each query, because the candidates of one query are similar.
    docids = (docid for qid, positive in data.units for docid in (positive, data.candidates[qid].docids[0]))
    texts = {
        "training queries": (data.queries[qid] for qid in queries),
        "documents to train on": (data.docs[docid] for docid in docids),
    }
    remedy = "make one of these documents (harp words), or leave --config.tokenizer out"
    for note in known_words(words, texts, data.max_length, LEAST_KNOWN, remedy):
        log.warning(note)


@dataclass(frozen=True)
class GroupBatches:
    """Epochs of permuted (query, relevant document) pairs; the last batch of an epoch has fewer groups than the others. Batch
    number n is a pure function of (seed, n), so that a run resumes with its number of steps as cursor."""

    data: RankingData
    groups: int  # per batch
    query_length: int  # words; longer queries are truncated

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.data) / self.groups)

    def after(self, start: int) -> Iterator[dict[str, np.ndarray]]:
        """Batches number `start`, `start + 1`, …, endlessly."""
        first, after = divmod(start, self.per_epoch)
        for epoch in count(first):
            order = generator(self.data.seed, "units", epoch).permutation(len(self.data))
            for at in range(after * self.groups, len(order), self.groups):
                yield self.batch([self.data.unit(epoch, int(unit))[0] for unit in order[at : at + self.groups]])
            after = 0

    def batch(self, units: list[list[tuple[np.ndarray, np.ndarray]]]) -> dict[str, np.ndarray]:
        """query [groups, Lq], documents [groups, size, Ld] int32, padded with 0, the relevant document first; present
        [groups, size] bool. `units`: (query, document) of each member of a group."""
        size = 1 + self.data.negatives
        rows = [*units, *[[]] * (self.groups - len(units))]
        query = padded([members[0][0] for members in units], self.groups, self.query_length)
        documents = [padded([words for _, words in members], size, self.data.max_length) for members in rows]
        present = np.arange(size) < np.array([[len(members)] for members in rows])
        return {"query": query, "documents": np.stack(documents), "present": present}


def group_loss(
    ranker: nn.Module,
    tables: WordTables,
    rank_loss: str,
    params: dict,
    batch: dict,
    dropout_key: jax.Array | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The ranking loss of a batch of `GroupBatches`, and its metric sums; no dropout without a key."""
    present = batch["present"]
    query = jnp.repeat(batch["query"], present.shape[1], axis=0)
    documents = batch["documents"].reshape(present.size, -1)
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    scores: Any = ranker.apply({"params": params}, query, documents, tables, rngs=rngs)
    counts = {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}
    return ranking_loss(rank_loss, scores.reshape(present.shape), present, counts)


def restored(workdir: str, params: dict, opt_state: optax.OptState) -> tuple[dict, optax.OptState, int]:
    """Parameters, optimizer state and step of the workdir's checkpoint; without one the given ones, of the same shapes."""
    stored = read_state(workdir)
    if not stored:
        return params, opt_state, 0
    paths, tree = jax.tree_util.tree_flatten_with_path({"params": params, "opt_state": opt_state, "step": 0})
    leaves = [stored[jax.tree_util.keystr(path, simple=True, separator="/")] for path, _ in paths]
    state = jax.tree_util.tree_unflatten(tree, leaves)
    log.info("resuming at step %d", state["step"])
    return state["params"], state["opt_state"], int(state["step"])
