"""Training of neural rankers on the shared loop: padded groups instead of packed rows, one objective, optional word vectors."""

import logging
import math
import os
from collections.abc import Callable

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir.groups import GroupLayout, GroupReader
from harp_jax.baselines.neural_ir.interaction import NeuralConfig
from harp_jax.baselines.neural_ir.ranker import NeuralRank, build, init_params, word_tables
from harp_jax.corpus.documents import Documents
from harp_jax.input.lanes import epoch_window
from harp_jax.input.packing import Reader
from harp_jax.input.ranking_groups import Judged
from harp_jax.ranking.selection import Selection, held_out
from harp_jax.text.words import WordVocabulary, count_words, load_words, read_stopwords, read_vectors
from harp_jax.training.stages.base import NoReader, Stage, selecting
from harp_jax.training.stages.families import NEURAL_IR

log = logging.getLogger(__name__)

TASK = "rank"

# For a dry run, which does not read the documents: only the number of words matters.
STAND_IN = WordVocabulary(tuple(f"word{i}" for i in range(30_000)), (1,) * 30_000, 30_000)


def neural_ir_stage(config: ConfigDict, with_data: bool = True) -> Stage[NeuralConfig]:
    """Training of a neural ranker on judged queries. Raises InputError for bad config or data.

    Without data (a dry run) neither documents nor vectors are read: STAND_IN replaces a vocabulary that does not exist, and
    vectors have `model.dimension` numbers.
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
            "the word vectors are random and are not trained: their cosines mean nothing beyond exact matches; set "
            "--config.vectors to trained ones (`harp words --vectors`)"
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
    """Raise InputError for numbers out of range and for options that do not apply to neural rankers."""
    for name in ("lanes", "accumulate", "window", "batch_pairs", "negatives"):
        if config[name] < 1:
            raise InputError(f"{name}={config[name]}: give 1 or more")
    if config.steps < 0 or (not config.steps and config.epochs <= 0):
        raise InputError(f"steps={config.steps}, epochs={config.epochs}: give a number of steps, or of epochs")
    unused = {
        "init": "neural rankers start from scratch, or from word vectors (config.vectors)",
        "rows": "neural rankers' batches are counted in pairs (config.batch_pairs)",
        "vectors": "DUET reads n-graphs, not word vectors" if config.model.name == "duet" else "",
    }
    for name, why in unused.items():
        if config[name] and why:
            raise InputError(f"{name}={config[name]!r}: {why}; remove the option")
    if config.dtype != "float32":
        raise InputError(f"dtype={config.dtype!r}: neural rankers compute in float32; remove the option")


def lane_groups(config: ConfigDict) -> int:
    """Groups of a lane in a microbatch. Raises InputError unless a window is a whole number of batches."""
    groups = max(1, round(config.batch_pairs / config.negatives / config.lanes / config.accumulate))
    whole = groups * config.accumulate
    if config.window % whole:
        raise InputError(
            f"window={config.window}: a step has {whole} groups per lane (batch_pairs / negatives / lanes), and a window must "
            f"be a multiple of that; set --config.window={whole * math.ceil(config.window / whole)}"
        )
    return groups


def _read_data(
    config: ConfigDict, words: WordVocabulary
) -> tuple[GroupReader, Callable[[NeuralConfig, str], Selection] | None]:
    """The groups to train on, and the selection of parameters (None without `config.select`)."""
    judged, selection = Judged.read(config), None
    if config.select:
        judged, selected_on = held_out(config, judged)
        selection = selecting(config, NEURAL_IR, words, selected_on)
    return GroupReader(config, words, judged), selection


def vocabulary(config: ConfigDict) -> WordVocabulary:
    """The words of `config.tokenizer`, or if it is empty, those of the documents."""
    if config.tokenizer:
        return load_words(config.tokenizer)
    if not config.docs:
        raise InputError("docs is empty; set --config.docs to a file")
    texts = Documents.open(config.docs, tuple(config.fields)).texts()
    return count_words(texts, config.stemmer, stopwords=read_stopwords(config.stopwords))
