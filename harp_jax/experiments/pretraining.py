"""A corpus, and the systems that are pre-trained on it: HARP, its ablations and the controls.

Every system reads the same pages, starts from the same parameters and gets the same number of updates; only tasks and loss weights
differ. With `scale` tiny or small, batches end at the same number of real tokens; in full size they have the paper's 128 pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harp_jax.base.steps import Steps
from harp_jax.config import PRESETS
from harp_jax.experiments.calls import configured, train
from harp_jax.experiments.experiment import check_known

HARP_TASKS = ("rqp", "qdm", "rdp", "acm")
TASKS = (*HARP_TASKS, "ict", "wlp", "prop")
NONE = "none"  # without pre-training
RECOMMENDED = "recommended"
NOT_PRETRAINED: dict[str, dict[str, Any]] = {
    NONE: {},
    "sjtf": {"mqp_weight": 1.0},
}  # system → fields of its fine-tuning
# System → how its pre-training differs from HARP's.
SYSTEMS: dict[str, dict[str, Any]] = {
    "harp": {},
    "mlm": {"pair_weight": 0.0},
    **{task: {"tasks": (task,)} for task in ("ict", "wlp", "prop")},
    RECOMMENDED: {"tasks": tuple(PRESETS[RECOMMENDED]["tasks"])},
    "no_mlm": {"mlm_weight": 0.0},
    **{f"no_{task}": {"tasks": tuple(t for t in HARP_TASKS if t != task)} for task in HARP_TASKS},
}
# BERT-tiny on two cores, about 16 rows of 512 slots, ten times BERT-base's rate because the model is small.
TINY: dict[str, Any] = {
    "init": "", "model.layers": 2, "model.hidden": 128, "model.heads": 2, "model.max_positions": 512, "row_length": 512,
    "batch_tokens": 7800, "lanes": 2, "mesh.data": -1, "dtype": "float32", "prng": "threefry", "learning_rate": 1e-3,
    "steps": 600, "log_every": 20, "eval_every": 200, "eval_batches": 8, "checkpoint_every": 200,
}  # fmt: skip
# A few layers of a small trained encoder on two cores: about 32 pairs of short leads per update, three times BERT-tiny's time.
SMALL: dict[str, Any] = {
    "row_length": 128, "batch_tokens": 7000, "lanes": 2, "window": 512, "mesh.data": -1, "dtype": "auto", "prng": "threefry",
    "learning_rate": 3e-4, "steps": 150, "log_every": 10, "eval_every": 75, "eval_batches": 8, "checkpoint_every": 50,
}  # fmt: skip
SCALES: dict[str, dict[str, Any]] = {"tiny": TINY, "small": SMALL, "full": {}}


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
        """Where the tokenizer comes from."""
        return self.tokenizer or self.init or self.encoder

    def files(self, pretrained: bool) -> list[str]:
        """The files and folders that are read; `pretrained`: whether any system is pre-trained. Encoders by name are none."""
        if not pretrained or self.pairs:
            return [self.pairs, self.init, self.tokenizer]
        encoder = "" if self.encoder in ("uniform", "idf") else self.encoder
        return [*self.job(TASKS).source.paths, encoder, self.init, self.tokenizer]

    def job(self, tasks: Sequence[str]) -> Any:
        """The config of the generation job, or of another command that reads the pages."""
        fields: dict[str, Any] = {"tokenizer": self.vocabulary, "encoder": self.encoder, "tasks": tuple(tasks)}
        fields |= {"source.paths": self.source} if self.source else {}
        return configured(self.source_config, fields, self.generation)

    def generated(self, steps: Steps, tasks: Sequence[str], output: str) -> str:
        """The folder of the pairs of these tasks: the given ones, or `output`."""
        from data_pipeline.pipeline import generate

        if self.pairs:
            return self.pairs
        steps("Generate pairs from links", generate, self.job(tasks), output)
        return output

    def trained(
        self,
        steps: Steps,
        title: str,
        pairs: str,
        seed: int,
        changes: Mapping[str, Any],
        output: str,
        config: str = "",
        texts: Sequence[str] = (),
    ) -> str:
        """The workdir `output` of a system, pre-trained with a seed; its config differs from `config` in `changes` and `texts`."""
        fields = SCALES[self.scale] | {"init": self.init, "tokenizer": self.vocabulary, "seed": seed, "data": (pairs,)}
        given = configured(config or self.config, fields, [*self.pretrain, *texts])
        given.update_from_flattened_dict(dict(changes))
        steps(title, train, given, output)
        return output

    def systems(
        self, steps: Steps, names: Sequence[str], seeds: Sequence[int]
    ) -> dict[tuple[str, int], dict[str, Any]]:
        """(system, seed) → the fields of a fine-tuning that starts from it; pre-trains those that are, in OUTPUT/SYSTEM_sSEED."""
        check_known("transformers", names, (*NOT_PRETRAINED, *SYSTEMS))
        pretrained = [name for name in names if name not in NOT_PRETRAINED]
        tasks = dict.fromkeys((*TASKS, *(SYSTEMS[RECOMMENDED]["tasks"] if RECOMMENDED in names else ())))
        pairs = self.generated(steps, tuple(tasks), f"{steps.output}/pairs") if pretrained else ""
        found = {}
        for name in names:
            for seed in seeds:
                if name in NOT_PRETRAINED:
                    found[name, seed] = self.start() | NOT_PRETRAINED[name]
                    continue
                config = "baselines/harp:recommended" if name == RECOMMENDED else ""
                workdir, title = f"{steps.output}/{name}_s{seed}", f"Pre-train {name}, seed {seed}"
                found[name, seed] = {"init": self.trained(steps, title, pairs, seed, SYSTEMS[name], workdir, config)}
        return found

    def on_target(self, steps: Steps, pairs: str, seed: int) -> dict[str, Any]:
        """As `systems`, for PROP pre-trained on pairs from the target collection."""
        workdir = f"{steps.output}/prop_target_s{seed}"
        title = f"Pre-train PROP on the target collection, seed {seed}"
        return {"init": self.trained(steps, title, pairs, seed, SYSTEMS["prop"], workdir)}

    def start(self) -> dict[str, Any]:
        """Fields of a fine-tuning without pre-training."""
        if self.init:
            return {"init": self.init}
        size = {field: value for field, value in SCALES[self.scale].items() if field.startswith("model.")}
        return {"init": "", "tokenizer": self.vocabulary, **size}


PRETRAINING = Pretraining()
PAPER = replace(PRETRAINING, source=(), source_config="data/enwiki:paper", init="bert-base-uncased", scale="full")
ENSEMBLE = ("roberta-base", "electra-base-discriminator")  # fine-tuned beside HARP in the paper's Table 3
