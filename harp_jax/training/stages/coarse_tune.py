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
from harp_jax.input.lanes import epoch_window
from harp_jax.input.packing import Reader, make_layout
from harp_jax.input.ranking_groups import STREAM, ClickReader
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.coarse_tune import LABELS, CoarseTune
from harp_jax.objectives.masking import slots
from harp_jax.text.tokenizer import Marks, Tokenizer, marks_of
from harp_jax.training.stages.stage import CROSS_ENCODER, NoReader, Stage


def coarse_tune_stage(config: ConfigDict, with_data: bool = True) -> Stage[EncoderShape]:
    """Coarse-tuning, or continual pre-training with `documents_only`. Raises InputError for bad config or data."""
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    marks = marks_of(tokenizer, config.marks)
    reader: Reader = _read_data(config, tokenizer, marks) if with_data else NoReader((STREAM,))

    shares = {STREAM: 1.0}
    pairs, size = config.batch_pairs, reader.sizes[STREAM]
    window = epoch_window(config.window, size, config.lanes) if with_data else config.window
    layout = make_layout(config, tokenizer, reader, shares, group_size=1, sequences=pairs, window=window)
    steps = config.steps or math.ceil(config.epochs * size / (layout.step_groups or pairs))

    def objective(shape: EncoderShape) -> CoarseTune:
        return CoarseTune(
            ranker=Ranker(shape),
            qdpp_weight=0.0 if config.documents_only else 1.0,
            predictions=slots(config.row_length),
            mask_token=tokenizer.mask,
            vocab_size=tokenizer.size,
            marks=marks.ids,
        )

    return Stage(
        family=CROSS_ENCODER,
        shape=encoder,
        vocabulary=tokenizer,
        tasks=() if config.documents_only else LABELS,
        objective=objective,
        reader=reader,
        layout=layout,
        shares=shares,
        steps=steps,
        start=starting_params(loaded, (), tokenizer.size, config.model.initialisation),
        window=window,
    )


def _read_data(config: ConfigDict, tokenizer: Tokenizer, marks: Marks) -> ClickReader:
    docs = Documents.open(config.docs, tuple(config.fields))
    clicks = Clicks.open(config.clicks, docs, config.sample, config.seed)
    return ClickReader(config, tokenizer, docs, clicks, marks)
