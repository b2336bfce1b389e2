"""Coarse-tuning (Keyaki and Keyaki): query-document pair prediction and MLM on clicked pairs, between pre-training and
fine-tuning; and its control, MLM on the clicked documents alone (continual pre-training).

In half of the pairs the document is replaced (NotPair) with one clicked for any query, drawn in proportion to clicks, so that
popularity does not reveal the label. Label and document of a pair are a pure function of (seed, epoch, number).
"""

import math

from ml_collections import ConfigDict

from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Reader
from harp_jax.input.ranking_groups import CLICKS, ClickedPairs, PairReader
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.masking import max_predictions
from harp_jax.objectives.pretrain import CoarseTune
from harp_jax.text.tokenizer import marks_of
from harp_jax.training.stages.stage import NoReader, Stage, check_inputs


def coarse_tune_stage(config: ConfigDict, with_data: bool = True) -> Stage:
    """Coarse-tuning, or continual pre-training with `documents_only`. Raises InputError for bad config or data."""
    if with_data:
        check_inputs(config, "docs", "clicks")
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    marks = marks_of(tokenizer, config.marks)
    reader: Reader = NoReader({CLICKS: 1})
    if with_data:
        docs = Documents.open(config.docs, tuple(config.fields))
        clicks = Clicks.open(config.clicks, docs, config.sample, config.seed)
        clicked = ClickedPairs(clicks, config.seed, config.documents_only)
        reader = PairReader(config, tokenizer, docs, clicked, marks)

    source = packed_source(config, tokenizer, reader, 1, config.batch_pairs, by_epochs=with_data)
    pairs = source.layout.step_groups or config.batch_pairs
    objective = CoarseTune(
        ranker=Ranker(encoder.padded),
        qdpp_weight=0.0 if config.documents_only else 1.0,
        predictions=max_predictions(config.row_length),
        mask_token=tokenizer.mask,
        vocab_size=tokenizer.size,
        marks=marks.ids,
        mask_always=config.mask_always,
    )
    return Stage(
        encoder=encoder,
        tokenizer=tokenizer,
        start=starting_params(loaded, (), tokenizer.size, config.model.initialisation),
        objective=objective,
        source=source,
        steps=config.steps or math.ceil(config.epochs * reader.sizes[CLICKS] / pairs),
    )
