"""Pre-training on pair records and running text, and training of the MLM head alone if `init` has none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter

from ml_collections import ConfigDict

from harp_jax.base import bucket
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.start import encoder_and_tokenizer, load_encoder, starting_params
from harp_jax.config import TAUGHT_PAIRS
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import mixture
from harp_jax.input.packing import Reader, make_layout
from harp_jax.input.ranking_groups import Judged
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.masking import slots
from harp_jax.objectives.objective import best_predictor
from harp_jax.objectives.pretrain import Pretrain
from harp_jax.ranking.selection import Selection
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.stages.stage import CROSS_ENCODER, NoReader, Stage, selecting


def pretrain_stage(config: ConfigDict, with_data: bool = True) -> Stage[EncoderShape]:
    """Pre-training on pair records, and on text if "mlm" is one of the tasks. Raises InputError for bad config or data."""
    tasks = tuple(config.tasks)
    if len(set(tasks)) < len(tasks):
        raise InputError(f"config.tasks={tasks!r} names a task twice; name each once (task_sampling decides how often)")
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    reader: Reader = NoReader(tasks)
    held_out: Reader | None = None
    selection: Callable[[EncoderShape, str], Selection] | None = None
    if with_data:
        reader, held_out = read_pairs(config, tokenizer)
        if config.select:
            selection = selecting(config, CROSS_ENCODER, tokenizer, Judged.read(config))
    shares = mixture(reader.sizes, config.task_sampling)
    group = 1 + config.negatives

    def objective(shape: EncoderShape) -> Pretrain:
        return Pretrain(
            ranker=Ranker(shape),
            tasks=tasks,
            pair_weight=config.pair_weight,
            pair_loss=config.pair_loss,
            pair_reduction=config.pair_reduction,
            mlm_weight=config.mlm_weight,
            predictions=slots(config.row_length) if config.mlm_weight else 0,
            mask_token=tokenizer.mask,
            vocab_size=tokenizer.size,
            continues=tokenizer.continues if config.mlm_whole_words else None,
            shared_mask=config.mlm_shared_mask,
        )

    return Stage(
        family=CROSS_ENCODER,
        shape=encoder,
        vocabulary=tokenizer,
        tasks=tasks,
        objective=objective,
        reader=reader,
        held_out=held_out,
        selection=selection,
        layout=make_layout(config, tokenizer, reader, shares, group, group * config.batch_pairs),
        shares=shares,
        trivial=_trivial(config.data, tasks) if with_data and config.pair_weight else {},
        steps=config.steps,
        start=starting_params(loaded, (), tokenizer.size, config.model.initialisation),
        untrained=() if loaded is None or "mlm" in loaded else ("mlm",),
    )


def _trivial(directories: Sequence[str], tasks: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Task → (name, accuracy) of the best trivial predictor in any of the data directories."""
    from harp_jax.input.tfrecords import read_manifest

    found: dict[str, tuple[str, float]] = {}
    for directory in directories:
        for task, entry in read_manifest(directory).get("tasks", {}).items():
            if task in tasks and entry.get("predictors"):
                found[task] = max(best_predictor(entry["predictors"]), found.get(task, ("", 0.0)), key=itemgetter(1))
    return found


def read_pairs(
    config: ConfigDict, tokenizer: Tokenizer, separate: SeparateTexts | None = None
) -> tuple[Reader, Reader | None]:
    """The pairs to train on, and held-out pairs if `config.eval_every` is set; `separate`: with queries and pages apart."""
    from harp_jax.input.records import read_manifest
    from harp_jax.input.tfrecords import RecordReader

    taught = config.get("pair_loss", "") in TAUGHT_PAIRS
    for directory in config.data:
        manifest = read_manifest(directory)
        if taught and "teacher" not in manifest:
            raise InputError(f"{directory}: pair_loss={config.pair_loss} needs scored pairs; make them with harp teach")
        found = manifest["tokenizer_sha256"]
        if found != tokenizer.sha256:
            raise InputError(
                f"{directory} was generated with another vocabulary ({found[:12]}…, this run's is "
                f"{tokenizer.sha256[:12]}…); set `tokenizer` to that one or generate the data again"
            )
    common = (
        config.lanes,
        config.row_length,
        config.get("mlm_side", "document"),
        config.seed,
        tokenizer.template,
        config.negatives,
        taught,
        separate,
    )
    reader = RecordReader(tuple(config.data), tuple(config.tasks), "train", *common)
    if not config.eval_every:
        return reader, None
    return reader, RecordReader(tuple(config.data), tuple(config.tasks), "validation", *common)


# Why the MLM head is trained first: a new head on a trained encoder has a large gradient (norm 15 on MiniLM; the pairs' is .4), and
# clipping by the global norm scales both, so the pair tasks learn nothing until the head has caught up. The paper starts from BERT,
# which has a head.
HEAD_DIRECTORY = "mlm_head"
HEAD_RATE = 1e-3  # learning rate of the head alone


def head_is_due(config: ConfigDict, stage: Stage) -> bool:
    """Whether the stage predicts tokens with a head that its `init` lacks, and the config asks to train that head first."""
    return "mlm" in stage.untrained and config.mlm_weight > 0 and config.mlm_head_steps > 0


def head_training(config: ConfigDict, stage: Stage[EncoderShape]) -> tuple[ConfigDict, Stage[EncoderShape]]:
    """The run that trains the head alone, the encoder frozen, on the same batches."""
    c = config.copy_and_resolve_references()
    c.steps = c.checkpoint_every = config.mlm_head_steps
    c.learning_rate, c.mlm_weight, c.weight_decay = HEAD_RATE, 1.0, 0.0
    c.mlm_head_steps = c.eval_every = 0

    def objective(shape: EncoderShape) -> Pretrain:
        whole = stage.objective(shape)
        assert isinstance(whole, Pretrain)
        return whole.head_alone()

    return c, replace(stage, objective=objective, held_out=None, selection=None, steps=config.mlm_head_steps)


def with_head(stage: Stage[EncoderShape], directory: str) -> Stage[EncoderShape]:
    """The stage that starts from the parameters of `head_training`'s workdir."""
    with bucket.fetched(directory) as local:
        loaded = load_encoder(local)[1]
    return replace(stage, start=starting_params(loaded, (), stage.vocabulary.size), untrained=())
