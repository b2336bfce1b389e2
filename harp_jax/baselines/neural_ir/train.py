"""Training of a neural ranker on judged queries, on one device: words, model, groups, state, step, loop.

In the workdir: config.json, the vocabulary, metrics.jsonl, `state.npz` (the newest checkpoint), `selected/` (with `select`).
"""

import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.base.files import full_disk_refused, replacing
from harp_jax.base.progress import progress
from harp_jax.baselines.neural_ir.groups import GroupBatches, check_words
from harp_jax.baselines.neural_ir.models import NeuralConfig, WordTables, build, init_params, word_tables
from harp_jax.baselines.neural_ir.scorer import STATE, NeuralScorer, read_state, save_parameters
from harp_jax.config import check_training
from harp_jax.corpus.documents import Documents
from harp_jax.input.ranking_groups import RankingData, RankingDataset, held_out
from harp_jax.objectives.losses import ranking_loss
from harp_jax.ranking.selection import Selection
from harp_jax.text.words import WordVocabulary, count_words, load_words, read_stopwords, read_vectors
from harp_jax.training.stages.stage import check_inputs
from harp_jax.training.train import TrainResult, last_logged, make_optimizer, schedule, stopped_by_sigterm
from harp_jax.training.workdir import MetricsLog, claim_workdir

log = logging.getLogger(__name__)

# Changes to the defaults of `NeuralConfig`, which are the papers'. DUET's paper has 300 filters and hidden units, for 200,000
# training queries.
SIZES: dict[str, dict[str, Any]] = {"duet": {"filters": 64, "hidden": 64, "dropout": 0.2}}
LANGUAGE = "english"  # for stemming and stopwords, if no vocabulary is given


class State(NamedTuple):
    """params, optimizer state, and the number of steps done."""

    params: dict
    opt_state: optax.OptState
    step: int


def train(config: ConfigDict, workdir: str) -> TrainResult:
    """Train the ranker to its last step, resuming from the workdir. Raises InputError for bad config or data."""
    check_training(config)
    check_inputs(config, "docs", "queries", "qrels", "candidates")
    if "://" in workdir or jax.process_count() > 1:
        raise InputError(f"{workdir}: a neural ranker trains in one process and in a local directory; use these")
    keep_compiled()

    # Words, model, data. Selected queries are held out from training.
    words = vocabulary(config)
    shape, vectors = shape_of(config, words)
    judged, selection = RankingDataset.read(config), None
    if config.select:
        judged, selected_on = held_out(config, judged)
        selection = Selection(
            config, selected_on, workdir, lambda params: NeuralScorer(shape, params, words), save_parameters
        )
    data = RankingData(config, words, judged)
    check_words(words, data, config.row_length)
    groups = max(1, round(config.batch_pairs / config.negatives))
    batches = GroupBatches(data, groups, shape.query_length, shape.document_length, config.seed)
    steps = config.steps or math.ceil(config.epochs * batches.per_epoch)

    # The optimizer, the step, and the newest state of this config in the workdir, or a new one.
    optimizer = make_optimizer(config, steps)
    step = make_step(build(shape), word_tables(shape, words), config.rank_loss, optimizer, config.seed)
    params = jax.jit(lambda key: init_params(shape, key))(jax.random.key(config.seed))
    if vectors is not None and "vectors" in params:
        params["vectors"] = jnp.asarray(vectors)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(full_disk_refused(workdir))
        lock = claim_workdir(workdir, config, {"neural_ir": dataclasses.asdict(shape)}, words)
        if lock is not None:
            cleanup.callback(lock.close)
        state = restored(workdir, State(params, optimizer.init(params), 0))
        metrics = MetricsLog(workdir, state.step or -1)
        cleanup.callback(metrics.close)
        return _loop(config, workdir, steps, state, step, batches, selection, metrics)


def _loop(
    config: ConfigDict,
    workdir: str,
    steps: int,
    state: State,
    step: Callable,
    batches: GroupBatches,
    selection: Selection | None,
    metrics: MetricsLog,
) -> TrainResult:
    """Steps `state.step + 1` … `steps`; after SIGTERM it saves and ends."""
    params, opt_state, start = state
    if start == 0 and selection is not None:
        metrics.write(0, selection(params, 0), "validation")
    rate, pending, since, last = schedule(config, steps), [], time.perf_counter(), last_logged(workdir)
    stream = batches.after(start)
    with (
        progress(total=steps, initial=start, unit="steps", desc=config.model.name) as bar,
        stopped_by_sigterm() as stop,
    ):
        for number in range(start + 1, steps + 1):
            params, opt_state, sums = step(params, opt_state, number - 1, next(stream))
            pending.append(sums)
            bar.update(1)
            if number % config.log_every == 0 or number == steps:
                last = _means(jax.device_get(pending), time.perf_counter() - since)
                last["learning_rate"] = float(rate(number - 1))
                metrics.write(number, last)
                if not math.isfinite(last["loss"]):
                    raise InputError(
                        f"step {number}: the loss is not finite; lower learning_rate={config.learning_rate}"
                    )
                pending, since = [], time.perf_counter()
            if selection is not None and (number % config.eval_every == 0 or number == steps):
                metrics.write(number, selection(params, number), "validation")
            ends = number == steps or stop.is_set()
            if number % config.checkpoint_every == 0 or ends:
                save(workdir, State(params, opt_state, number))
            if ends:
                return TrainResult(last, interrupted=number < steps)
    return TrainResult(last)


def vocabulary(config: ConfigDict) -> WordVocabulary:
    """The words of `config.tokenizer`, or of the documents if it is empty."""
    if config.tokenizer:
        return load_words(config.tokenizer)
    texts = Documents.open(config.docs, tuple(config.fields)).texts()
    return count_words(texts, LANGUAGE, stopwords=read_stopwords(LANGUAGE))


def shape_of(config: ConfigDict, words: WordVocabulary) -> tuple[NeuralConfig, np.ndarray | None]:
    """The model's shape, and the word vectors [words, dimension] of `config.vectors`. InputError for options without effect."""
    name = config.model.name
    frozen = name == "drmm" or not config.model.train_vectors
    for wrong, message in (
        (
            config.select and not config.eval_every,
            f"select={config.select!r} needs evaluations; set --config.eval_every",
        ),
        (name == "duet" and config.vectors, "vectors: DUET reads n-graphs, not word vectors; remove the option"),
        (frozen and config.weight_decay, "weight_decay would shrink word vectors that are not trained; set it to 0"),
    ):
        if wrong:
            raise InputError(message)
    given = {**SIZES.get(name, {}), **config.model.to_dict()}
    shape = NeuralConfig(vocab_size=words.size, document_length=config.row_length, **given)
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
    scores: Any = ranker.apply(
        {"params": params}, query, documents, tables, deterministic=dropout_key is None, rngs=rngs
    )
    counts = {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}
    return ranking_loss(rank_loss, scores.reshape(present.shape), present, counts)


def make_step(
    ranker: nn.Module, tables: WordTables, rank_loss: str, optimizer: optax.GradientTransformation, seed: int
) -> Callable:
    """`params, opt_state, number, batch → params, opt_state, metric sums`, jitted; a pure function of (seed, number, batch)."""
    gradient = jax.value_and_grad(group_loss, argnums=3, has_aux=True)

    @jax.jit
    def step(params: dict, opt_state: optax.OptState, number: int, batch: dict) -> tuple:
        key = jax.random.fold_in(jax.random.key(seed + 1), number)
        (_, sums), grads = gradient(ranker, tables, rank_loss, params, batch, key)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, sums

    return step


def _means(rows: list[dict[str, np.ndarray]], seconds: float) -> dict[str, float]:
    """Means of the metric sums of some steps, which took `seconds`."""
    total = {name: float(np.sum([row[name] for row in rows], dtype=np.float64)) for name in rows[0]}
    return {
        "loss": total["loss"] / len(rows),
        "pair_accuracy": total["right"] / max(total["pairs"], 1.0),
        "pairs_per_step": total["pairs"] / len(rows),
        "seconds_per_step": seconds / len(rows),
    }


def save(workdir: str, state: State) -> None:
    """Replaces the checkpoint atomically. Its zip format has a checksum of every array."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(state._asdict()))
    with replacing(os.path.join(workdir, STATE), "wb") as file:
        np.savez(file, **{jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves})


def restored(workdir: str, fresh: State) -> State:
    """The checkpoint of a workdir, or `fresh`, which has the same shapes, if there is none yet."""
    stored = read_state(workdir)
    if not stored:
        return fresh
    paths, tree = jax.tree_util.tree_flatten_with_path(fresh._asdict())
    leaves = [stored[jax.tree_util.keystr(path, simple=True, separator="/")] for path, _ in paths]
    found = State(**jax.tree_util.tree_unflatten(tree, leaves))
    log.info("resuming at step %d", found.step)
    return found._replace(step=int(found.step))
