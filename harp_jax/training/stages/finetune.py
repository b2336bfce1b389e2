"""Fine-tuning of a re-ranker on judged queries: groups of a relevant document and negatives, losses, selection.

With `mqp_weight` > 0 also masked query prediction (SJTF): each group has its positive once more, with a query token masked, and
the parameters have a decoder for it, which scorers and exports leave out.
"""

import logging
import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Reader
from harp_jax.input.ranking_groups import (
    JudgedPairs,
    PairReader,
    RankingData,
    RankingDataset,
    RankingReader,
    held_out,
)
from harp_jax.model.cross_encoder import Ranker, init_params, rules
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.finetune import DECODER, Finetune, init_decoder
from harp_jax.text.tokenizer import marks_of
from harp_jax.training.stages.stage import Model, NoReader, Stage, Start, check_inputs, warn_if_constant

TASK = "rank"
log = logging.getLogger(__name__)


def finetune_stage(config: ConfigDict, with_data: bool = True, judged: RankingDataset | None = None) -> Stage:
    """Fine-tuning on judged queries, with negatives from a run's candidates. Data: the config's files, or `judged` in memory.
    Raises InputError for bad config or data."""
    classified = config.rank_loss == "judged" and not config.select  # judged pairs; candidates are not read
    if with_data and judged is None:
        check_inputs(config, "docs", "queries", "qrels", *(() if classified else ("candidates",)))
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    if loaded is not None and config.init_head == "pretrained" and "score" not in loaded:
        log.warning("%s has no score head for init_head='pretrained': training starts from a fresh one", config.init)
    dropped = ("pooler", "score") if config.init_head == "fresh" else ()
    start = starting_params(loaded, dropped, tokenizer.size, config.model.initialisation)
    marks = marks_of(tokenizer, config.marks)

    # The groups to train on. Queries to select parameters by are held out.
    reader: Reader = NoReader({TASK: 1})
    select = None
    if with_data:
        judged = judged or RankingDataset.read(config)
        if config.select:
            from harp_jax.ranking.selection import selecting_ranker

            judged, selected_on = held_out(config, judged)
            select = selecting_ranker(config, tokenizer, selected_on)
        if config.rank_loss == "judged":
            reader = PairReader(config, tokenizer, judged.docs, JudgedPairs(judged), marks, TASK)
        else:
            reader = RankingReader(config, RankingData(config, tokenizer, judged, marks), tokenizer.template)

    # The number of groups per step is measured: it varies with packing and with groups of fewer negatives.
    predicting = config.mqp_weight > 0
    pairs = 1 if config.rank_loss == "judged" else 1 + config.negatives
    size = pairs + predicting
    sequences = round(config.batch_pairs * size / pairs)
    source = packed_source(config, tokenizer, reader, size, sequences, by_epochs=with_data)
    groups = source.layout.step_groups or sequences / size

    objective = Finetune(
        ranker=Ranker(encoder.padded),
        rank_loss=config.rank_loss,
        mqp_weight=config.mqp_weight,
        predictions=source.layout.sequences if predicting else 0,
        mask_token=tokenizer.mask,
        marks=marks.ids,
    )
    return Stage(
        encoder=encoder,
        tokenizer=tokenizer,
        model=Model(with_decoder(init_params, tokenizer.size), decoder_rules) if predicting else Model(),
        start=with_decoder(start, tokenizer.size) if predicting else start,
        objective=objective,
        source=source,
        steps=config.steps or math.ceil(config.epochs * reader.sizes[TASK] / groups),
        select=select,
        check=partial(warn_if_constant, config),
        spike=0.0,  # the losses of small batches of judged pairs vary too much for a spike test
    )


def with_decoder(start: Start, vocab_size: int) -> Start:
    """The parameters with a new decoder; rows that sharding adds to the vocabulary get no probability."""

    def params(shape: EncoderConfig, key: jax.Array) -> dict:
        fresh = init_decoder(replace(shape, vocab_size=vocab_size), jax.random.fold_in(key, 2))
        extra = shape.vocab_size - vocab_size
        embedding = jnp.pad(fresh["embedding"], ((0, extra), (0, 0)))
        bias = jnp.pad(fresh["bias"], (0, extra), constant_values=-1e9)
        return {**start(shape, key), DECODER: {"embedding": embedding, "bias": bias}}

    return params


def decoder_rules(shape: EncoderConfig) -> tuple[tuple[str, P], ...]:
    """The sharding rules of `with_decoder`."""
    return (*rules(shape), (r"decoder/embedding$", P("model", "fsdp")), (r"decoder/bias$", P("model")))
