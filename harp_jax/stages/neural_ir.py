"""Training of neural rankers on the shared loop: padded groups instead of packed rows, one objective, given word vectors."""

import logging
import math
import os
from collections.abc import Callable

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.corpus.documents import Documents
from harp_jax.errors import InputError
from harp_jax.input.lanes import Reader, epoch_window
from harp_jax.input.ranking_groups import training_qrels
from harp_jax.neural_ir.build import build, init_params, word_tables
from harp_jax.neural_ir.groups import GroupLayout, GroupReader
from harp_jax.neural_ir.objective import NeuralRank
from harp_jax.neural_ir.shape import NeuralConfig
from harp_jax.ranking.selection import Selection, held_out
from harp_jax.stages.base import NoReader, Stage, selecting
from harp_jax.stages.families import NEURAL_IR
from harp_jax.text.words import Words, count_words, load_words, read_stopwords, read_vectors

log = logging.getLogger(__name__)

TASK = "rank"

# For a dry run, which must not need the documents: only the number of words matters to it.
STAND_IN = Words(tuple(f"word{i}" for i in range(30_000)), (1,) * 30_000, 30_000)


def neural_ir_stage(config: ConfigDict, with_data: bool = True) -> Stage[NeuralConfig]:
    """The stage that `config.stage == "neural_ir"` names. Raises InputError for bad config or data.

    Without data, for a dry run, neither documents nor vectors are read: words stand in for a vocabulary that is not there,
    and vectors have `model.dimension` numbers.
    """
    check(config)
    known = os.path.isfile(os.path.join(config.tokenizer, "words.json"))
    words = vocabulary(config) if with_data or known else STAND_IN
    given = read_vectors(config.vectors, words, config.seed) if config.vectors and with_data else None
    options = config.model.to_dict() | {"document_length": config.row_length}
    if given is not None:
        options["dimension"] = given[0].shape[1]
        log.info("%d of %d words have a vector in %s", given[1], len(words.words), config.vectors)
    shape = NeuralConfig(vocab_size=words.size, **options)
    frozen = shape.name == "drmm" or not shape.train_vectors
    if config.weight_decay and frozen:
        raise InputError("weight_decay would shrink word vectors that are not trained; set it to 0")
    if frozen and not config.vectors and shape.name != "duet":
        log.warning(
            "the word vectors are random and are not trained: their cosines say nothing beyond exact matches; give trained "
            "ones by --config.vectors (python -m harp_jax.text.word_vectors)"
        )
    tables, groups = word_tables(shape, words), lane_groups(config)
    reader: Reader = NoReader((TASK,))
    selection: Callable[[NeuralConfig, str], Selection] | None = None
    window = config.window
    if with_data:
        reader, selection = _read_data(config, words)
        window = epoch_window(window, reader.sizes[TASK], config.lanes, groups * config.accumulate)

    def objective(padded: NeuralConfig) -> NeuralRank:
        return NeuralRank(build(padded), tables, config.rank_loss, config.margin)

    def start(padded: NeuralConfig, key: jax.Array) -> dict:
        params = jax.device_get(jax.jit(lambda k: init_params(padded, k))(key))
        if given is not None and "vectors" in params:
            table = np.zeros_like(params["vectors"])
            table[: words.size] = given[0]
            params["vectors"] = table
        return params

    per_step = groups * config.lanes * config.accumulate
    return Stage(
        family=NEURAL_IR,
        shape=shape,
        vocabulary=words,
        tasks=(TASK,),
        objective=objective,
        reader=reader,
        layout=GroupLayout(groups, 1 + config.negatives, shape.query_length, shape.document_length, config.accumulate),
        shares={TASK: 1.0},
        steps=config.steps or math.ceil(config.epochs * reader.sizes[TASK] / per_step),
        start=start,
        selection=selection,
        window=window,
    )


def check(config: ConfigDict) -> None:
    """Raises InputError for numbers out of range, and for options that neural rankers have no use for."""
    for name in ("lanes", "accumulate", "window", "batch_pairs", "negatives"):
        if config[name] < 1:
            raise InputError(f"{name}={config[name]}: give 1 or more")
    if config.steps < 0 or (not config.steps and config.epochs <= 0):
        raise InputError(f"steps={config.steps}, epochs={config.epochs}: give a number of steps, or of epochs")
    unused = {
        "init": "neural rankers start from scratch, or from word vectors (config.vectors)",
        "rows": "their batches are counted in pairs (config.batch_pairs)",
        "vectors": "DUET reads n-graphs and no word vectors" if config.model.name == "duet" else "",
    }
    for name, why in unused.items():
        if config[name] and why:
            raise InputError(f"{name}={config[name]!r}: {why}; leave the option out")
    if config.dtype != "float32":
        raise InputError(f"dtype={config.dtype!r}: neural rankers compute in float32; leave the option out")


def lane_groups(config: ConfigDict) -> int:
    """Groups that a lane gives to a microbatch. InputError where a window is no whole number of batches: one would be cut."""
    groups = max(1, round(config.batch_pairs / config.negatives / config.lanes / config.accumulate))
    whole = groups * config.accumulate
    if config.window % whole:
        raise InputError(
            f"window={config.window}: a lane takes {whole} groups a step (batch_pairs / negatives / lanes), and its windows "
            f"must hold whole steps; set --config.window={whole * math.ceil(config.window / whole)}"
        )
    return groups


def _read_data(config: ConfigDict, words: Words) -> tuple[GroupReader, Callable[[NeuralConfig, str], Selection] | None]:
    """The groups to train on, and what selects the parameters (None where nothing does)."""
    if not config.select:
        return GroupReader(config, words, training_qrels(config)), None
    train, kept_back = held_out(config)
    return GroupReader(config, words, train), selecting(config, NEURAL_IR, words, kept_back)


def vocabulary(config: ConfigDict) -> Words:
    """The words of `config.tokenizer`, or of the documents where it is empty."""
    if config.tokenizer:
        return load_words(config.tokenizer)
    if not config.docs:
        raise InputError("docs is empty; set --config.docs to a file")
    texts = Documents.open(config.docs, tuple(config.fields)).texts()
    return count_words(texts, config.stemmer, stopwords=read_stopwords(config.stopwords))
