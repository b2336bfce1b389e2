"""Training of vectors on pair records: an encoder that embeds queries and pages separately (a bi-encoder)."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.sentence_transformers import (
    embedding_of,
    recorded_embedding,
    recorded_temperature,
    save_vectors,
)
from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import mixture
from harp_jax.input.packing import PackedLayout, Reader, make_layout
from harp_jax.input.ranking_groups import Judged
from harp_jax.model import bi_encoder
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.contrastive import START, Contrastive
from harp_jax.ranking.scorers import BiEncoderScorer
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.stages.pretrain import read_pairs
from harp_jax.training.stages.stage import CROSS_ENCODER, Family, NoReader, Stage, selecting

COLLAPSED = 1e-3  # standard deviation of a batch's cosines; MiniLM's on Wikipedia is .17
FULL = 1.25  # maximum groups of a batch, relative to the average: memory for cosines grows with its square
log = logging.getLogger(__name__)


def retriever_stage(config: ConfigDict, with_data: bool = True) -> Stage[EncoderShape]:
    """Vectors from pairs, near those of `config.init`. Records its pooling and prompts in the config, for the export.

    Raises InputError for bad config or data, and for an encoder whose pooling is not known.
    """
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    with config.unlocked():
        if with_data:
            config.pooling, config.prompts = pooling_and_prompts(config, encoder.hidden)
        config.pooling = config.pooling or "mean"  # in a dry run, which may lack `init`
    encoder = replace(encoder, pooling=config.pooling)
    query, page = (tuple(tokenizer.encode(text.rstrip())) for text in config.prompts or ("", ""))
    texts = SeparateTexts(config.row_length, tokenizer.template, (query, page))
    if texts.room < 1:
        raise InputError(f"row_length={config.row_length} leaves no room for a text after its prompt; raise it")

    tasks, size = tuple(config.tasks), 2 + config.negatives
    reader: Reader = NoReader(tasks)
    held_out: Reader | None = None
    if with_data:
        reader, held_out = read_pairs(config, tokenizer, separate=texts)
    shares = mixture(reader.sizes, config.task_sampling)
    layout = make_layout(config, tokenizer, reader, shares, size, size * config.batch_pairs)
    family = bi_encoder_family(bool(config.kl_weight))
    judged = Judged.read(config) if with_data and config.select else None

    def objective(shape: EncoderShape) -> Contrastive:
        return Contrastive(shape, config.temperature, config.kl_weight, config.both_directions)

    def start(shape: EncoderShape, key: jax.Array) -> dict[str, Any]:
        given = {"encoder": loaded["encoder"]} if loaded else None
        params = {
            "encoder": starting_params(given, (), tokenizer.size, config.model.initialisation)(shape, key)["encoder"]
        }
        return {**params, START: params} if config.kl_weight else params

    return Stage(
        family=family,
        shape=encoder,
        vocabulary=tokenizer,
        tasks=(),
        objective=objective,
        reader=reader,
        held_out=held_out,
        selection=selecting(config, family, tokenizer, judged) if judged else None,
        layout=with_identities(layout, config),
        shares=shares,
        steps=config.steps,
        start=start,
        check=partial(check_vectors, config),
    )


def pooling_and_prompts(config: ConfigDict, hidden: int) -> tuple[str, tuple[str, ...]]:
    """The config's, or those that `init` records; InputError if the pooling is unknown, or if a dense layer follows it."""
    made = recorded_embedding(config.init, hidden) if config.init else None
    pooling = config.pooling or (made.pooling if made and made.recorded else "")
    if not pooling:
        raise InputError(
            f"init={config.init!r} does not record how it pools hidden states; set --config.pooling=mean or cls"
        )
    if made and made.dense:
        raise InputError(
            f"the vectors of {config.init} pass through a dense layer after the pooling, which is not trained here; use an "
            "encoder without one"
        )
    prompts = tuple(config.prompts) or (made.prompts if made else ())
    if any(prompts):
        log.info("queries begin with %r, pages with %r", *prompts)
    before = recorded_temperature(config.init) if config.init else None
    if before not in (None, config.temperature):
        log.warning(
            "%s was trained with temperature %g; this training uses %g", config.init, before, config.temperature
        )
    return pooling, prompts


def with_identities(layout: PackedLayout, config: ConfigDict) -> PackedLayout:
    """The layout with what identifies its texts, and at most FULL times as many groups as a batch has on average."""
    average = config.batch_pairs / (config.lanes * layout.microbatches)
    return replace(layout, identities=2 + 2 * (1 + config.negatives), density=FULL * average / layout.rows)


def bi_encoder_family(starts: bool) -> Family[EncoderShape]:
    """An encoder without heads; `starts`: and its frozen start."""

    def init_params(shape: EncoderShape, key: jax.Array) -> dict[str, Any]:
        params = {"encoder": CROSS_ENCODER.init_params(shape, key)["encoder"]}
        return {**params, START: params} if starts else params

    def scorer(shape: EncoderShape, params: Mapping, tokenizer: Tokenizer, config: ConfigDict) -> BiEncoderScorer:
        made = embedding_of(config)
        return BiEncoderScorer(shape, dict(params), tokenizer, config.row_length, made=made)

    def save(
        directory: str, shape: EncoderShape, params: dict[str, Any], tokenizer: Tokenizer, config: ConfigDict
    ) -> None:
        save_vectors(directory, shape, params, tokenizer, config, "")

    return replace(
        CROSS_ENCODER,
        rules=bi_encoder.rules,
        init_params=init_params,
        flops=bi_encoder.step_flops,
        scorer=scorer,
        save=save,
    )


def check_vectors(config: ConfigDict, step: int, metrics: Mapping[str, float]) -> None:
    """InputError if no query has a negative, or if all vectors have become the same."""
    if not metrics["negatives"]:
        raise InputError(
            f"no query up to step {step} has a negative: all other pages of its batch equal its own, belong to an equal query, or "
            "are linked from the same page; raise batch_pairs or negatives, or train on more pages"
        )
    if metrics["cosine_spread"] < COLLAPSED and step > config.warmup * config.steps:
        raise InputError(
            f"the vectors have collapsed up to step {step}: the standard deviation of a batch's cosines is "
            f"{metrics['cosine_spread']:.1g}; start in another --workdir with a lower learning_rate or a higher kl_weight"
        )
