"""Training of vectors on pair records: an encoder that embeds queries and pages separately (a bi-encoder)."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_vectors
from harp_jax.checkpoints.sentence_transformers import embedding_of, recorded_embedding
from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import PackedLayout, Reader
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.contrastive import START, Contrastive
from harp_jax.training.stages.pretrain import JUDGED, check_data, record_readers
from harp_jax.training.stages.stage import Model, NoReader, Stage, Start, check_inputs

COLLAPSED = 1e-3  # standard deviation of a batch's cosines; MiniLM's on Wikipedia's links is .12
FULL = 1.25  # maximum groups of a batch, relative to the average: memory for cosines grows with its square
log = logging.getLogger(__name__)


def retriever_stage(config: ConfigDict, with_data: bool = True) -> Stage:
    """Vectors from pairs, near those of `config.init`. Records its pooling and prompts in the config, for the export. Raises
    InputError for bad config or data, and for an encoder whose pooling is not known."""
    if with_data:
        check_inputs(config, "data", *(JUDGED if config.select else ()))
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

    reader: Reader = NoReader(dict.fromkeys(config.tasks, 1))
    held_out = select = None
    if with_data:
        check_data(config, tokenizer)
        reader, held_out = record_readers(config, tokenizer, texts)
        if config.select:
            from harp_jax.input.ranking_groups import RankingDataset
            from harp_jax.ranking.scorers import BiEncoderScorer
            from harp_jax.ranking.selection import selecting

            def scorer(shape: EncoderConfig, params: Any) -> BiEncoderScorer:
                return BiEncoderScorer(shape, params, tokenizer, config.row_length, made=embedding_of(config))

            def save(directory: str, shape: EncoderConfig, params: Any) -> None:
                save_vectors(directory, shape, params, tokenizer, embedding_of(config), "")

            select = selecting(config, RankingDataset.read(config), scorer, save)
    size = 2 + config.negatives
    source = packed_source(config, tokenizer, reader, size, size * config.batch_pairs)
    weights = config.temperature, config.kl_weight, config.both_directions, config.teacher_weight

    def with_start(drawn: Start) -> Start:
        """The encoder alone, and, if the loss keeps to its similarities, a frozen copy."""

        def params(shape: EncoderConfig, key: jax.Array) -> dict[str, Any]:
            encoder = {"encoder": drawn(shape, key)["encoder"]}
            return {**encoder, START: encoder} if config.kl_weight else encoder

        return params

    given = {"encoder": loaded["encoder"]} if loaded else None
    return Stage(
        encoder=encoder,
        tokenizer=tokenizer,
        model=Model(with_start(init_params), lambda shape: shape.rules, step_flops, frozen=(START,)),
        start=with_start(starting_params(given, (), tokenizer.size, config.model.initialisation)),
        objective=Contrastive(encoder.padded, *weights),
        source=replace(source, layout=with_identities(source.layout, config)),
        steps=config.steps,
        held_out=held_out,
        select=select,
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
        wrong = "pass through a dense layer after the pooling, which is not trained here"
        raise InputError(f"the vectors of {config.init} {wrong}; use an encoder without one")
    prompts = tuple(config.prompts) or (made.prompts if made else ())
    if any(prompts):
        log.info("queries begin with %r, pages with %r", *prompts)
    return pooling, prompts


def step_flops(shape: EncoderConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """`cross_encoder.step_flops` without heads. Gradient caching encodes once more, and a frozen start once; like all
    recomputation, neither counts as useful work."""
    return 3.0 * shape.forward_flops(rows, length, sequences if shape.pooling == "cls" else length)


def with_identities(layout: PackedLayout, config: ConfigDict) -> PackedLayout:
    """The layout with what identifies its texts, and at most FULL times as many groups as a batch has on average."""
    average = config.batch_pairs / (config.lanes * layout.microbatches)
    return replace(layout, identities=2 + 2 * (1 + config.negatives), density=FULL * average / layout.rows)


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
