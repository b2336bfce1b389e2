"""Fine-tuning of a re-ranker on judged queries: groups of a relevant document and negatives, losses, selection."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.input.lanes import epoch_window
from harp_jax.input.packing import Reader, make_layout
from harp_jax.input.ranking_groups import Judged, RankingData, RankingReader
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.finetune import DECODER, Finetune, init_decoder
from harp_jax.ranking.selection import Selection, held_out
from harp_jax.text.tokenizer import Tokenizer, marks_of
from harp_jax.training.stages.stage import CROSS_ENCODER, NoReader, Stage, selecting

TASK = "rank"
log = logging.getLogger(__name__)
# Masked query prediction adds its decoder to the parameters; scorers and exports leave it out.
WITH_DECODER = replace(
    CROSS_ENCODER,
    rules=lambda shape: (
        *CROSS_ENCODER.rules(shape),
        (r"decoder/embedding$", P("model", "fsdp")),
        (r"decoder/bias$", P("model")),
    ),
    init_params=lambda shape, key: {**CROSS_ENCODER.init_params(shape, key), DECODER: init_decoder(shape, key)},
)


def finetune_stage(config: ConfigDict, with_data: bool = True, judged: Judged | None = None) -> Stage[EncoderShape]:
    """Fine-tuning on judged queries, with negatives from a run's candidates. Data: the config's files, or `judged` in memory.

    Raises InputError for bad config or data.
    """
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    if loaded is not None and config.init_head == "pretrained" and "score" not in loaded:
        log.warning("%s has no score head for init_head='pretrained': training starts from a fresh one", config.init)
    predicting = config.mqp_weight > 0
    start = starting_params(
        loaded, ("pooler", "score") if config.init_head == "fresh" else (), tokenizer.size, config.model.initialisation
    )
    marks = marks_of(tokenizer, config.marks)
    reader: Reader = NoReader((TASK,))
    selection: Callable[[EncoderShape, str], Selection] | None = None
    if with_data:
        reader, selection = _read_data(config, tokenizer, judged or Judged.read(config))

    shares = {TASK: 1.0}
    pairs = 1 + config.negatives
    size = pairs + predicting
    sequences = round(config.batch_pairs * size / pairs)
    window = epoch_window(config.window, reader.sizes[TASK], config.lanes) if with_data else config.window
    layout = make_layout(config, tokenizer, reader, shares, group_size=size, sequences=sequences, window=window)
    # The number of groups per step is measured (`layout`): it varies with packing and with groups of fewer negatives.
    steps = config.steps or math.ceil(config.epochs * reader.sizes[TASK] / (layout.step_groups or sequences / size))

    def objective(shape: EncoderShape) -> Finetune:
        return Finetune(
            ranker=Ranker(shape),
            rank_loss=config.rank_loss,
            mqp_weight=config.mqp_weight,
            predictions=layout.sequences if predicting else 0,
            mask_token=tokenizer.mask,
            marks=marks.ids,
        )

    return Stage(
        family=WITH_DECODER if predicting else CROSS_ENCODER,
        shape=encoder,
        vocabulary=tokenizer,
        tasks=(TASK,),
        objective=objective,
        reader=reader,
        layout=layout,
        shares=shares,
        steps=steps,
        start=with_decoder(start, tokenizer.size) if predicting else start,
        selection=selection,
        spike=0.0,  # the losses of small batches of judged pairs vary too much for a spike test
        window=window,
    )


def with_decoder(
    start: Callable[[EncoderShape, jax.Array], dict], vocab_size: int
) -> Callable[[EncoderShape, jax.Array], dict]:
    """The starting parameters with a new decoder; rows that sharding adds to the vocabulary get no probability."""

    def started(shape: EncoderShape, key: jax.Array) -> dict:
        fresh = jax.device_get(init_decoder(replace(shape, vocab_size=vocab_size), jax.random.fold_in(key, 2)))
        extra = shape.vocab_size - vocab_size
        padded = {
            "embedding": np.pad(fresh["embedding"], ((0, extra), (0, 0))),
            "bias": np.pad(fresh["bias"], (0, extra), constant_values=-1e9),
        }
        return {**start(shape, key), DECODER: padded}

    return started


def _read_data(
    config: ConfigDict, tokenizer: Tokenizer, judged: Judged
) -> tuple[RankingReader, Callable[[EncoderShape, str], Selection] | None]:
    """The groups to train on, and the selection of parameters (None without `config.select`)."""
    selection = None
    if config.select:
        judged, selected_on = held_out(config, judged)
        selection = selecting(config, CROSS_ENCODER, tokenizer, selected_on)
    return RankingReader(config, RankingData(config, tokenizer, judged), tokenizer.template), selection
