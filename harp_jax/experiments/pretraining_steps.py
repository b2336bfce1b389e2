"""The steps of pre-training: pairs of a corpus, and HARP and its controls trained on them with one budget.

Every system reads the same pairs' documents, starts from the same parameters and gets the same updates and real tokens; only
the tasks and the losses' weights differ (`configs/baselines/`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harp_jax.base.errors import InputError
from harp_jax.config import PRESETS
from harp_jax.experiments.plan import Command

CONFIGS = {
    "harp": "harp",
    "recommended": "recommended",
    "mlm": "bert",
    "ict": "ict",
    "wlp": "wlp",
    "prop": "prop",
}  # system → below configs/baselines
HARP_TASKS = ("rqp", "qdm", "rdp", "acm")
TASKS = (*HARP_TASKS, "ict", "wlp", "prop")
RECOMMENDED_TASKS = tuple(PRESETS["recommended"]["tasks"])
NONE = "none"  # the control without pre-training
# BERT-tiny on two cores, about 16 rows of 512 slots, ten times BERT-base's rate because the model is small.
TINY: dict[str, str | int | float] = {
    "init": "", "model.layers": 2, "model.hidden": 128, "model.heads": 2, "model.max_positions": 512, "row_length": 512,
    "batch_tokens": 7800, "lanes": 2, "mesh.data": -1, "dtype": "float32", "prng": "threefry", "learning_rate": 1e-3,
    "steps": 600, "log_every": 20, "eval_every": 200, "eval_batches": 8, "checkpoint_every": 200,
}  # fmt: skip
# A few layers of a small trained encoder on two cores: about 32 pairs of short leads an update, three times BERT-tiny's time.
SMALL: dict[str, str | int | float] = {
    "row_length": 128, "batch_tokens": 7000, "lanes": 2, "window": 512, "mesh.data": -1, "dtype": "auto", "prng": "threefry",
    "learning_rate": 3e-4, "steps": 150, "log_every": 10, "eval_every": 75, "eval_batches": 8, "checkpoint_every": 50,
}  # fmt: skip
SCALES: dict[str, dict[str, str | int | float]] = {"tiny": TINY, "small": SMALL, "full": {}}


def tasks_of(systems: Sequence[str]) -> tuple[str, ...]:
    """The tasks whose pairs the systems of a table read, those of all controls among them, so that tables share their pairs."""
    more = RECOMMENDED_TASKS if "recommended" in systems else ()
    return tuple(dict.fromkeys((*TASKS, *more)))


@dataclass(frozen=True)
class Pretraining:
    """A corpus, and how systems are pre-trained on it.

    pairs: finished output of the generation job with the tasks of all systems; empty: generated from `source`
    source: files of linked documents
    source_config: generation config
    generation: further fields of it, as in source.redirects=('redirects.tsv',)
    encoder: Hugging Face BERT (or workdir) that weighs the terms of the pairs; or uniform, idf
    init: Hugging Face BERT (or workdir) that every system starts from; empty: from scratch
    tokenizer: vocabulary of the pairs and of systems from scratch; empty: that of `init`, or of `encoder`
    scale: tiny: BERT-tiny, on two cores; small: few layers of a trained encoder, on two cores; full: configs/baselines/ unchanged
    pretrain: fields of every pre-training, after those of `scale`, as in steps=2000
    """

    pairs: str = ""
    source: tuple[str, ...] = ("linked_pages.jsonl",)
    source_config: str = "data/linked_jsonl"
    generation: tuple[str, ...] = ()
    encoder: str = "bert-base-uncased"
    init: str = ""
    tokenizer: str = ""
    scale: str = "tiny"
    pretrain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InputError(f"scale={self.scale} is unknown; choose from {', '.join(SCALES)}")

    @property
    def vocabulary(self) -> str:
        """Where the tokenizer comes from."""
        return self.tokenizer or self.init or self.encoder

    @property
    def place(self) -> str:
        """The pairs: the given ones, or the output of the step that `generated` adds."""
        return self.pairs or "{pairs}"

    def source_options(self) -> list[str]:
        """The corpus as options of commands that read a generation config."""
        fields = [f"--config.{field}" for field in self.generation]
        return [f"--config={self.source_config}", f"--config.source.paths={self.source!r}", *fields]

    def generated(self, tasks: Sequence[str] = TASKS) -> list[Command]:
        """The step pairs, or nothing if there are finished pairs."""
        if self.pairs:
            return []
        arguments = [
            *self.source_options(),
            f"--config.tokenizer={self.vocabulary}",
            f"--config.encoder={self.encoder}",
        ]
        return [Command("pairs", "generate", [*arguments, f"--config.tasks={tuple(tasks)!r}", "--output={out}"])]

    def trained(self, name: str, system: str, seed: int, settings: Sequence[str] = ()) -> Command:
        """The step `name`: the system pre-trained with a seed; `settings` are further config fields."""
        given = SCALES[self.scale] | {"init": self.init, "tokenizer": self.vocabulary, "seed": seed}
        given["data"] = f"('{self.place}',)"
        fields = [*(f"{field}={value}" for field, value in given.items()), *self.pretrain, *settings]
        config = f"configs/baselines/{CONFIGS[system]}.py"
        return Command(name, "train", [f"--config={config}", "--workdir={out}", *(f"--config.{f}" for f in fields)])

    def start(self, pretrained: str) -> list[str]:
        """Fields of a fine-tuning that starts from the step `pretrained`, or without pre-training for NONE."""
        if pretrained != NONE:
            return ["init={" + pretrained + "}"]
        if self.init:
            return [f"init={self.init}"]
        size = [f"{field}={value}" for field, value in SCALES[self.scale].items() if field.startswith("model.")]
        return ["init=", f"tokenizer={self.vocabulary}", *size]


PRETRAINING = Pretraining()  # the defaults of plans
