"""Training of neural rankers on the shared loop: padded groups instead of packed rows, one objective, optional word vectors."""

import dataclasses
import logging
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir.groups import GroupLayout, GroupReader
from harp_jax.baselines.neural_ir.models import NeuralConfig, build, init_params, word_tables
from harp_jax.baselines.neural_ir.ranker import NeuralRank
from harp_jax.corpus.documents import Documents
from harp_jax.input.lanes import epoch_window
from harp_jax.input.ranking_groups import Judged
from harp_jax.ranking.selection import Selection, held_out
from harp_jax.text.words import WordVocabulary, count_words, load_words, read_stopwords, read_vectors
from harp_jax.training.stages.stage import NEURAL_IR, Stage, selecting

log = logging.getLogger(__name__)

TASK = "rank"

# Changes to the defaults of `NeuralConfig`, which are the papers'. DUET's paper has 300 filters and hidden units, for 200,000
# training queries.
SIZES: dict[str, dict[str, Any]] = {"duet": {"filters": 64, "hidden": 64, "dropout": 0.2}}

LANGUAGE = "english"  # for stemming and stopwords, if no vocabulary is given


def neural_ir_stage(config: ConfigDict) -> Stage[NeuralConfig]:
    """Training of a neural ranker on judged queries. Raises InputError for bad config or data."""
    words = vocabulary(config)
    name = config.model.name
    frozen = name == "drmm" or not config.model.train_vectors
    for wrong, message in (
        (name == "duet" and config.vectors, "vectors: DUET reads n-graphs, not word vectors; remove the option"),
        (frozen and config.weight_decay, "weight_decay would shrink word vectors that are not trained; set it to 0"),
    ):
        if wrong:
            raise InputError(message)
    given = read_vectors(config.vectors, words, config.seed) if config.vectors else None
    shape = NeuralConfig(
        vocab_size=words.size, document_length=config.row_length, **{**SIZES.get(name, {}), **config.model.to_dict()}
    )
    if given is not None:
        shape = dataclasses.replace(shape, dimension=given[0].shape[1])
        log.info("%d of %d words have a vector in %s", given[1], len(words.words), config.vectors)
    if frozen and not config.vectors and name != "duet":
        log.warning(
            "the word vectors are random and are not trained: their cosines mean nothing beyond exact matches; set "
            "--config.vectors to trained ones (`harp words --vectors`)"
        )
    tables, groups = word_tables(shape, words), lane_groups(config)
    reader, selection = _read_data(config, words)
    window = epoch_window(config.window, reader.sizes[TASK], config.lanes, groups * config.accumulate)

    def objective(padded: NeuralConfig) -> NeuralRank:
        return NeuralRank(build(padded), tables, config.rank_loss)

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


def lane_groups(config: ConfigDict) -> int:
    """Groups per lane and microbatch. Raises InputError unless a window is a whole number of batches."""
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
    """The words of `config.tokenizer`, or of the documents if it is empty."""
    if config.tokenizer:
        return load_words(config.tokenizer)
    texts = Documents.open(config.docs, tuple(config.fields)).texts()
    return count_words(texts, LANGUAGE, stopwords=read_stopwords(LANGUAGE))
