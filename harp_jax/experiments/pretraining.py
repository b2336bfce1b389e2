"""Pre-training of the systems that a table compares: the same pages, start and number of updates, other tasks and loss weights."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ml_collections import ConfigDict

from harp_jax.base.steps import Steps
from harp_jax.config import PRESETS, load_config
from harp_jax.experiments.experiment import check_known
from harp_jax.training.recorded import train

# System → how it differs from HARP's.
HARP_TASKS = ("rqp", "qdm", "rdp", "acm")
TASKS = (*HARP_TASKS, "ict", "wlp", "prop")
RECOMMENDED = "recommended"
SYSTEMS: dict[str, dict[str, Any]] = {
    "harp": {},
    "mlm": {"pair_weight": 0.0},
    **{task: {"tasks": (task,)} for task in ("ict", "wlp", "prop")},
    RECOMMENDED: {"tasks": tuple(PRESETS[RECOMMENDED]["tasks"])},
    "no_mlm": {"mlm_weight": 0.0},
    **{f"no_{task}": {"tasks": tuple(t for t in HARP_TASKS if t != task)} for task in HARP_TASKS},
}
# Without pre-training: system → fields of its fine-tuning.
NONE = "none"
NOT_PRETRAINED: dict[str, dict[str, Any]] = {NONE: {}, "sjtf": {"mqp_weight": 1.0}}
SCALES: dict[str, dict[str, Any]] = {
    # BERT-tiny on two cores, about 16 rows of 512 slots, ten times BERT-base's rate because the model is small.
    "tiny": {
        "init": "", "model.layers": 2, "model.hidden": 128, "model.heads": 2, "model.max_positions": 512, "row_length": 512,
        "batch_tokens": 7800, "lanes": 2, "mesh.data": -1, "dtype": "float32", "prng": "threefry", "learning_rate": 1e-3,
        "steps": 600, "log_every": 20, "eval_every": 200, "eval_batches": 8, "checkpoint_every": 200,
    },
    # A few layers of a small trained encoder on two cores: about 32 pairs of short leads per update, three times BERT-tiny's time.
    "small": {
        "row_length": 128, "batch_tokens": 7000, "lanes": 2, "window": 512, "mesh.data": -1, "dtype": "auto", "prng": "threefry",
        "learning_rate": 3e-4, "steps": 150, "log_every": 10, "eval_every": 75, "eval_batches": 8, "checkpoint_every": 50,
    },
    "full": {},
}  # fmt: skip


@dataclass(frozen=True)
class Pretraining:
    """A corpus, and how systems are pre-trained on it.

    pairs: finished output of harp generate with the tasks of all systems; empty: generated from `source`
    source: files of linked documents; empty: those of `source_config`
    source_config: generation config
    generation: more fields for the generation config, as in source.redirects=('redirects.tsv',)
    encoder: Hugging Face encoder (or workdir) that weights the terms of the pairs; or uniform, idf
    init: Hugging Face encoder (or workdir) that every system starts from; empty: from scratch
    tokenizer: vocabulary of the pairs and of systems from scratch; empty: that of `init`, or of `encoder`
    scale: tiny: BERT-tiny, on two cores; small: a few layers of a trained encoder, on two cores; full: `config` unchanged
    config: training config of HARP; the others differ from it in tasks and loss weights
    pretrain: fields for every pre-training, after those of `scale`, as in steps=2000
    """

    pairs: str = ""
    source: tuple[str, ...] = ("linked_pages.jsonl",)
    source_config: str = "data/linked_jsonl:paper"
    generation: tuple[str, ...] = ()
    encoder: str = "bert-base-uncased"
    init: str = ""
    tokenizer: str = ""
    scale: str = "tiny"
    config: str = "tpu_v3:paper"
    pretrain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_known("scale", [self.scale], tuple(SCALES))

    @property
    def vocabulary(self) -> str:
        return self.tokenizer or self.init or self.encoder

    def files(self, systems: Sequence[str]) -> list[str]:
        """The files and folders that `starts` reads. Encoders by name are none."""
        check_known("transformers", systems, (*NOT_PRETRAINED, *SYSTEMS))
        if self.pairs or set(systems) <= NOT_PRETRAINED.keys():
            return [self.pairs, self.init, self.tokenizer]
        encoder = "" if self.encoder in ("uniform", "idf") else self.encoder
        return [*self.job(TASKS).source.paths, encoder, self.init, self.tokenizer]

    def job(self, tasks: Sequence[str]) -> ConfigDict:
        """The config of the generation job, or of another command that reads the pages."""
        fields: dict[str, Any] = {"tokenizer": self.vocabulary, "encoder": self.encoder, "tasks": tuple(tasks)}
        fields |= {"source.paths": self.source} if self.source else {}
        return load_config(self.source_config, fields, self.generation)

    def generated(self, steps: Steps, tasks: Sequence[str], changes: Mapping[str, Any] = {}, row: str = "") -> str:
        """The folder of the pairs of these tasks: the given ones, or OUTPUT/pairs; for a row of a table OUTPUT/pairs_ROW, whose
        config differs in `changes`."""
        from data_pipeline.pipeline import generate

        output = self.pairs or f"{steps.output}/pairs{row and f'_{row}'}"
        if not self.pairs:
            job = self.job(tasks)
            job.update_from_flattened_dict(dict(changes))
            steps(f"Generate pairs {f'of {row}' if row else 'from links'}", generate, job, output)
        return output

    def trained(
        self, steps: Steps, name: str, pairs: str, seed: int, changes: Mapping[str, Any], config: str = ""
    ) -> str:
        """The workdir OUTPUT/NAME_sSEED of a system; its config differs from `config` in `changes`."""
        fields = SCALES[self.scale] | {"init": self.init, "tokenizer": self.vocabulary, "seed": seed, "data": (pairs,)}
        training = load_config(config or self.config, fields, self.pretrain)
        training.update_from_flattened_dict(dict(changes))
        workdir = f"{steps.output}/{name}_s{seed}"
        steps(f"Pre-train {name}, seed {seed}", train, training, workdir)
        return workdir

    def starts(self, steps: Steps, systems: Sequence[str], seeds: Sequence[int]) -> dict[tuple[str, int], dict]:
        """(system, seed) → the fields of a fine-tuning that starts from it."""
        if not set(systems) <= NOT_PRETRAINED.keys():
            more = SYSTEMS[RECOMMENDED]["tasks"] if RECOMMENDED in systems else ()
            pairs = self.generated(steps, tuple(dict.fromkeys((*TASKS, *more))))
        size = {name: value for name, value in SCALES[self.scale].items() if name.startswith("model.")}
        untrained = {"init": self.init} if self.init else {"init": "", "tokenizer": self.vocabulary, **size}
        starts: dict[tuple[str, int], dict[str, Any]] = {}
        for name, seed in itertools.product(systems, seeds):
            config = f"baselines/harp:{RECOMMENDED}" if name == RECOMMENDED else ""
            starts[name, seed] = (
                untrained | NOT_PRETRAINED[name]
                if name in NOT_PRETRAINED
                else {"init": self.trained(steps, name, pairs, seed, SYSTEMS[name], config)}
            )
        return starts
