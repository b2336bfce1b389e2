"""Pre-training on pair records and running text, and training of the MLM head alone if `init` has none."""

from dataclasses import replace
from functools import partial
from operator import itemgetter

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from harp_jax.config import needs_scored_pairs
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Reader
from harp_jax.input.records import read_manifest
from harp_jax.input.tfrecords import RecordReader
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.masking import max_predictions
from harp_jax.objectives.objective import best_predictor
from harp_jax.objectives.pretrain import Pretrain
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.stages.stage import HeldOut, NoReader, Stage, Trivial, check_inputs, warn_if_constant

JUDGED = ("docs", "queries", "qrels", "candidates")
HEAD_RATE = 1e-3  # learning rate of the head alone


def pretrain_stage(config: ConfigDict, with_data: bool = True) -> Stage:
    """Pre-training on pair records, and on text if "mlm" is one of the tasks. Raises InputError for bad config or data."""
    tasks = tuple(config.tasks)
    if len(set(tasks)) < len(tasks):
        raise InputError(f"config.tasks={tasks!r} names a task twice; name each once (task_sampling decides how often)")
    if with_data:
        check_inputs(config, "data", *(JUDGED if config.select else ()))
    encoder, tokenizer, loaded = encoder_and_tokenizer(config)
    reader: Reader = NoReader(dict.fromkeys(tasks, 1))
    held_out = select = None
    if with_data:
        trivial = check_data(config, tokenizer)
        reader, held_out = record_readers(config, tokenizer, trivial=trivial if config.pair_weight else {})
        if config.select:
            from harp_jax.input.ranking_groups import RankingDataset
            from harp_jax.ranking.selection import selecting_ranker

            select = selecting_ranker(config, tokenizer, RankingDataset.read(config))

    group = 1 + config.negatives
    objective = Pretrain(
        ranker=Ranker(encoder.padded),
        tasks=tasks,
        pair_weight=config.pair_weight,
        pair_loss=config.pair_loss,
        pair_reduction=config.pair_reduction,
        mlm_weight=config.mlm_weight,
        predictions=max_predictions(config.row_length) if config.mlm_weight else 0,
        mask_token=tokenizer.mask,
        vocab_size=tokenizer.size,
        continues=tokenizer.continues if config.mlm_whole_words else None,
        shared_mask=config.mlm_shared_mask,
    )
    headless = loaded is not None and "mlm" not in loaded
    alone = replace(objective, pair_weight=0.0, mlm_weight=1.0, frozen=True)
    return Stage(
        encoder=encoder,
        tokenizer=tokenizer,
        start=starting_params(loaded, (), tokenizer.size, config.model.initialisation),
        objective=objective,
        source=packed_source(config, tokenizer, reader, group, group * config.batch_pairs),
        steps=config.steps,
        held_out=held_out,
        select=select,
        check=partial(warn_if_constant, config) if config.pair_weight else None,
        before=partial(head_alone, config, alone) if headless and config.mlm_weight and config.mlm_head_steps else None,
    )


def check_data(config: ConfigDict, tokenizer: Tokenizer) -> Trivial:
    """The best trivial predictor of each task in any of the data directories. Raises InputError for pairs of another vocabulary,
    and for pairs without the scores that the loss needs."""
    best: dict[str, tuple[str, float]] = {}
    for directory in config.data:
        manifest = read_manifest(directory)
        if needs_scored_pairs(config) and "teacher" not in manifest:
            field = "pair_loss" if "pair_loss" in config else "teacher_weight"
            raise InputError(f"{directory}: {field}={config[field]} needs scored pairs; make them with harp teach")
        theirs = manifest["tokenizer_sha256"]
        if theirs != tokenizer.sha256:
            raise InputError(
                f"{directory} was generated with another vocabulary ({theirs[:12]}…, this run's is "
                f"{tokenizer.sha256[:12]}…); set `tokenizer` to that one or generate the data again"
            )
        for task, entry in manifest.get("tasks", {}).items():
            if task in config.tasks and entry.get("predictors"):
                best[task] = max(best_predictor(entry["predictors"]), best.get(task, ("", 0.0)), key=itemgetter(1))
    return best


def record_readers(
    config: ConfigDict, tokenizer: Tokenizer, separate: SeparateTexts | None = None, trivial: Trivial | None = None
) -> tuple[Reader, HeldOut | None]:
    """The pair records to train on and, if the config evaluates, the held-out ones; `separate`: queries and pages apart."""

    def of(split: str) -> RecordReader:
        return RecordReader(
            tuple(config.data), tuple(config.tasks), split, config.lanes, config.row_length, config.get("mlm_side", "document"),
            config.seed, tokenizer.template, config.negatives, needs_scored_pairs(config), separate,
        )  # fmt: skip

    return of("train"), HeldOut(of("validation"), trivial or {}) if config.eval_every else None


def head_alone(config: ConfigDict, objective: Pretrain, stage: Stage) -> tuple[ConfigDict, Stage]:
    """Config and stage of the run that trains a new MLM head alone, the encoder frozen, on the same batches. A new head on a
    trained encoder has a large gradient (norm 15 on MiniLM; the pairs' is .4), and clipping by the global norm scales both, so the
    pair tasks would learn nothing until the head has caught up. The paper starts from BERT, which has a head."""
    c = config.copy_and_resolve_references()
    c.steps = c.checkpoint_every = config.mlm_head_steps
    c.learning_rate, c.mlm_weight, c.weight_decay = HEAD_RATE, 1.0, 0.0
    c.mlm_head_steps = c.eval_every = 0
    return c, replace(stage, objective=objective, held_out=None, select=None, check=None, before=None, steps=c.steps)
