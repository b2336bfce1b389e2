"""The building blocks of plans: a tuned first stage, a trained re-ranker, a sum of runs, a table; k-fold cross-validation; a corpus
and the systems pre-trained on it; a judged collection on which they are compared.

Arguments that are paths may be "{NAME}", the output of an earlier step. A collection with separate training and test queries has
two folds, "train" and "test"; only "test" is tested. Every pre-trained system reads the same pairs' documents, starts from the
same parameters and gets the same updates and real tokens; only tasks and loss weights differ (`configs/baselines/`).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harp_jax.base.errors import InputError
from harp_jax.config import PRESETS
from harp_jax.corpus.trec import read_folds
from harp_jax.experiments.plan import Command


@dataclass(frozen=True)
class Collection:
    """Documents, the queries of all folds, their judgments, and the document fields to read ((): default)."""

    docs: str
    queries: str
    qrels: str
    fields: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """Documents and queries as options of commands."""
        fields = [f"--fields={','.join(self.fields)}"] if self.fields else []
        return [f"--docs={self.docs}", f"--queries={self.queries}", *fields]

    @property
    def settings(self) -> list[str]:
        """Documents, queries and judgments as fields of a training config."""
        fields = [f"fields={self.fields!r}"] if self.fields else []
        return [f"docs={self.docs}", f"queries={self.queries}", f"qrels={self.qrels}", *fields]


def tuned_first_stage(
    model: str,
    collection: Collection,
    *,
    folds: str,
    measure: str,
    options: Sequence[str] = (),
    grids: Sequence[str] = (),
    name: str = "",
) -> list[Command]:
    """BM25, BM25F or QL (`model`), each fold ranked by parameters tuned on the others: steps tuned_NAME and NAME (or the model's).

    `options` are for both commands, `grids` for tuning, such as "--k1=0.6,0.9,1.2".
    """
    common = [f"--model={model}", *collection.options, f"--folds={folds}", *options, "--output={out}"]
    tuning = [*common, f"--qrels={collection.qrels}", f"--measure={measure}", *grids]
    name = name or model
    parameters = "--parameters={tuned_" + name + "}"
    return [
        Command(f"tuned_{name}", "tune-first-stage", tuning, suffix=".json"),
        Command(name, "first-stage", [*common, parameters], suffix=".trec"),
    ]


def trained_ranker(
    name: str,
    collection: Collection,
    *,
    config: str,
    candidates: str,
    settings: Sequence[str] = (),
    rerank: Sequence[str] = (),
    test: Collection | None = None,
    test_candidates: str = "",
    export: bool = True,
) -> list[Command]:
    """Trains a re-ranker on a collection and ranks with it: steps train_NAME, model_NAME (`export`) and run_NAME.

    `settings` are config fields ("epochs=1.0"), `rerank` options of re-ranking ("max_length=256"). Neural rankers are not
    exported: their workdir is the model. `test` and `test_candidates` default to the training collection and candidates.
    """
    fields = [*collection.settings, f"candidates={candidates}", *settings]
    tested = test or collection
    model = f"model_{name}" if export else f"train_{name}"
    ranking = ["--model={" + model + "}", *tested.options, f"--run={test_candidates or candidates}"]
    ranking += [f"--{option}" for option in rerank]
    training = [f"--config={config}", "--workdir={out}", *(f"--config.{field}" for field in fields)]
    exported = Command(model, "export", ["--workdir={train_" + name + "}", "--output={out}"])
    return [
        Command(f"train_{name}", "train", training),
        *([exported] if export else []),
        Command(f"run_{name}", "rerank", [*ranking, "--output={out}"], suffix=".trec"),
    ]


def blanked(ranking: Command, name: str) -> Command:
    """A re-ranking by the same model with blank queries."""
    return Command(name, "rerank", [*ranking.arguments, "--blank_query"], suffix=".trec")


def fitted_sum(
    name: str, runs: Sequence[str], *, qrels: str, folds: str, measure: str, options: Sequence[str] = ()
) -> Command:
    """The weighted sum of runs, the weights of each fold fitted on the others."""
    fitting = ["--method=weights", f"--qrels={qrels}", f"--folds={folds}", f"--measure={measure}"]
    return Command(name, "fuse", [*runs, *fitting, *options, "--output={out}"], suffix=".trec")


def comparison(
    name: str,
    systems: Mapping[str, Sequence[str]],
    *,
    qrels: str,
    measures: str,
    baseline: str,
    chance: str = "",
    blank: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Command:
    """The table of systems (row → runs, one per seed) against a baseline row; the step writes the values per query.

    `chance`: the row whose candidates are shuffled; `blank`: system → its row with blank queries.
    """
    rows = [f"{row}={','.join(runs)}" for row, runs in systems.items()]
    judged = [f"--qrels={qrels}", f"--measures={measures}", f"--baseline={baseline}", *options]
    judged += [f"--chance={chance}"] if chance else []
    judged += [f"--blank={system}={row}" for system, row in (blank or {}).items()]
    return Command(name, "evaluate", [*rows, *judged, "--per_query={out}"], suffix=".tsv")


def output_of(*names: str) -> list[str]:
    """How later steps refer to the outputs of steps."""
    return ["{" + name + "}" for name in names]


def cross_validation(
    name: str,
    collection: Collection,
    *,
    folds: str,
    fold_names: Sequence[str],
    config: str,
    candidates: str,
    settings: Sequence[str] = (),
    rerank: Sequence[str] = (),
    blank: bool = False,
    only: Sequence[str] = (),
    export: bool = True,
) -> list[Command]:
    """For each fold, trains a re-ranker on the others; the step joined_NAME joins the folds' runs.

    `folds` is a file of "qid<TAB>fold", `fold_names` its folds. `only` restricts the tested folds (each model is still trained
    on all other folds). With `blank`, the same models also rank with blank queries; blank_NAME joins these runs. The
    rest as in `trained_ranker`; steps of fold i are train_NAME_fi, model_NAME_fi, run_NAME_fi and blank_NAME_fi.
    """
    commands: list[Command] = []
    runs: dict[str, list[str]] = {"joined": [], **({"blank": []} if blank else {})}
    for number, fold in enumerate(fold_names):
        if only and fold not in only:
            continue
        others = tuple(other for other in fold_names if other != fold)
        *training, ranking = trained_ranker(
            f"{name}_f{number}",
            collection,
            config=config,
            candidates=candidates,
            settings=[f"folds={folds}", f"train_folds={others!r}", *settings],
            rerank=[f"folds={folds}", f"fold={fold}", *rerank],
            export=export,
        )
        commands += [*training, ranking]
        runs["joined"] += output_of(ranking.name)
        if blank:
            commands.append(blanked(ranking, f"blank_{name}_f{number}"))
            runs["blank"] += output_of(commands[-1].name)
    for kind, made in runs.items():
        joining = ["--method=join", *made, "--output={out}"]
        commands.append(Command(f"{kind}_{name}", "fuse", joining, suffix=".trec"))
    return commands


CONTROLS = ("recommended", "mlm", "ict", "wlp", "prop")  # presets of configs/baselines/harp.py
HARP_TASKS = ("rqp", "qdm", "rdp", "acm")
TASKS = (*HARP_TASKS, "ict", "wlp", "prop")
RECOMMENDED_TASKS = tuple(PRESETS["recommended"]["tasks"])
NONE = "none"  # the control without pre-training
NOT_PRETRAINED = {NONE: [], "sjtf": ["mqp_weight=1.0"]}  # system → fields of its fine-tuning
ABLATIONS: dict[str, list[str]] = {
    "no_mlm": ["mlm_weight=0.0"],
    **{f"no_{task}": [f"tasks={tuple(t for t in HARP_TASKS if t != task)!r}"] for task in HARP_TASKS},
}  # system → how its config differs from HARP's
# BERT-tiny on two cores, about 16 rows of 512 slots, ten times BERT-base's rate because the model is small.
TINY: dict[str, str | int | float] = {
    "init": "", "model.layers": 2, "model.hidden": 128, "model.heads": 2, "model.max_positions": 512, "row_length": 512,
    "batch_tokens": 7800, "lanes": 2, "mesh.data": -1, "dtype": "float32", "prng": "threefry", "learning_rate": 1e-3,
    "steps": 600, "log_every": 20, "eval_every": 200, "eval_batches": 8, "checkpoint_every": 200,
}  # fmt: skip
# A few layers of a small trained encoder on two cores: about 32 pairs of short leads per update, three times BERT-tiny's time.
SMALL: dict[str, str | int | float] = {
    "row_length": 128, "batch_tokens": 7000, "lanes": 2, "window": 512, "mesh.data": -1, "dtype": "auto", "prng": "threefry",
    "learning_rate": 3e-4, "steps": 150, "log_every": 10, "eval_every": 75, "eval_batches": 8, "checkpoint_every": 50,
}  # fmt: skip
SCALES: dict[str, dict[str, str | int | float]] = {"tiny": TINY, "small": SMALL, "full": {}}


def check_known(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Raises InputError for the first value of a plan's option that is not known."""
    if unknown := [name for name in given if name not in known]:
        raise InputError(f"{option}={unknown[0]} is unknown; choose from {', '.join(known)}")


def tasks_of(systems: Sequence[str]) -> tuple[str, ...]:
    """The tasks whose pairs the systems of a table read, including those of all controls, so that tables share their pairs."""
    more = RECOMMENDED_TASKS if "recommended" in systems else ()
    return tuple(dict.fromkeys((*TASKS, *more)))


@dataclass(frozen=True)
class Pretraining:
    """A corpus, and how systems are pre-trained on it.

    pairs: finished output of harp generate with the tasks of all systems; empty: generated from `source`
    source: files of linked documents
    source_config: generation config
    generation: more fields for the generation config, as in source.redirects=('redirects.tsv',)
    encoder: Hugging Face encoder (or workdir) that weights the terms of the pairs; or uniform, idf
    init: Hugging Face encoder (or workdir) that every system starts from; empty: from scratch
    tokenizer: vocabulary of the pairs and of systems from scratch; empty: that of `init`, or of `encoder`
    scale: tiny: BERT-tiny, on two cores; small: a few layers of a trained encoder, on two cores; full: configs/baselines/ unchanged
    pretrain: fields for every pre-training, after those of `scale`, as in steps=2000
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
        fields = [*(f"{field}={value}" for field, value in given.items()), *self.pretrain]
        fields += [*ABLATIONS.get(system, []), *settings]
        config = "configs/baselines/harp.py" + (f":{system}" if system in CONTROLS else "")
        return Command(name, "train", [f"--config={config}", "--workdir={out}", *(f"--config.{f}" for f in fields)])

    def systems(self, names: Sequence[str], seeds: Sequence[int]) -> list[Command]:
        """The step pairs, and a step pre_NAME_sSEED for each pre-trained system."""
        check_known("transformers", names, (*NOT_PRETRAINED, "harp", *CONTROLS, *ABLATIONS))
        trained = [name for name in names if name not in NOT_PRETRAINED]
        steps = [self.trained(f"pre_{name}_s{seed}", name, seed) for name in trained for seed in seeds]
        return [*(self.generated(tasks_of(names)) if trained else []), *steps]

    def start(self, pretrained: str) -> list[str]:
        """Fields of a fine-tuning that starts from the step `pretrained`, or without pre-training for NOT_PRETRAINED."""
        if pretrained not in NOT_PRETRAINED:
            return ["init={" + pretrained + "}"]
        own = NOT_PRETRAINED[pretrained]
        if self.init:
            return [f"init={self.init}", *own]
        size = [f"{field}={value}" for field, value in SCALES[self.scale].items() if field.startswith("model.")]
        return ["init=", f"tokenizer={self.vocabulary}", *size, *own]


PRETRAINING = Pretraining()  # the defaults of plans


MADE_FOLDS = ("0", "1", "2", "3", "4")  # if no file of folds is given
NEURAL = ("drmm", "duet", "knrm", "conv_knrm")


@dataclass(frozen=True)
class Benchmark:
    """A judged collection, the runs to re-rank, and how rankers are trained and tested.

    docs: documents
    queries: training and test queries
    qrels: judgments of these queries
    fields: document fields to read
    folds: file of qid<TAB>fold lines; empty: five folds that share no relevant document
    tested: folds to test, each with models trained on all others (empty: all)
    candidates: runs to re-rank, NAME=RUN or RUN; empty: BM25, tuned on the other folds
    depth: BM25 candidates per query
    measures: measures in the tables; the first one is tuned for and decides which systems are at chance level
    confirm: measures whose differences are tested, chosen in advance (empty: the first)
    finetune: fine-tuning config of the transformers
    settings: fields for every fine-tuning, as in epochs=1.0
    neural: fields for every training of a neural ranker
    rerank: options for every re-ranking, as in max_length=256
    seeds: random seeds of pre-training and fine-tuning
    """

    docs: str = "docs.tsv"
    queries: str = "queries.tsv"
    qrels: str = "qrels.txt"
    fields: tuple[str, ...] = ("title", "url", "body")
    folds: str = ""
    tested: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    depth: int = 100
    measures: str = "RR@10 RR@100 nDCG@10 nDCG@100"
    confirm: str = ""
    finetune: str = "configs/finetune.py"
    settings: tuple[str, ...] = ()
    neural: tuple[str, ...] = ()
    rerank: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)

    @property
    def collection(self) -> Collection:
        return Collection(self.docs, self.queries, self.qrels, self.fields)

    @property
    def fold_file(self) -> str:
        """The given file of folds, or the output of the step folds."""
        return self.folds or "{folds}"

    @property
    def measure(self) -> str:
        """The first measure."""
        return self.measures.split()[0]

    def fold_names(self) -> tuple[str, ...]:
        """All folds. Raises InputError for a file that cannot be read, and for tested folds that it lacks."""
        names = tuple(sorted(set(read_folds(self.folds).values()))) if self.folds else MADE_FOLDS
        if unknown := [fold for fold in self.tested if fold not in names]:
            raise InputError(
                f"tested={unknown[0]} is not a fold; the folds {f'of {self.folds} ' if self.folds else ''}are {', '.join(names)}"
            )
        if len(names) < 2:
            raise InputError(f"{self.folds} has only one fold; a ranker needs at least one other to train on")
        return names

    def runs(self) -> dict[str, str]:
        """Label → run to re-rank: the given ones, or {"BM25": "{bm25}"}."""
        return labelled(self.candidates) or {"BM25": "{bm25}"}

    def prepared(self) -> list[Command]:
        """The steps folds and bm25, unless they are given."""
        commands = []
        if not self.folds:
            options = [f"--queries={self.queries}", f"--qrels={self.qrels}", "--output={out}"]
            commands.append(Command("folds", "queries", ["folds", *options], suffix=".tsv"))
        if not self.candidates:
            commands += self.lexical("bm25", options=[f"--k={self.depth}"])
        return commands

    def lexical(self, model: str, name: str = "", options: Sequence[str] = ()) -> list[Command]:
        """A lexical model tuned on the other folds: steps tuned_NAME and NAME."""
        tuning = {"folds": self.fold_file, "measure": self.measure}
        return tuned_first_stage(model, self.collection, **tuning, options=options, name=name)

    def words(self) -> list[Command]:
        """What neural rankers need: the step words, with word vectors."""
        docs = [f"--docs={self.docs}", f"--fields={','.join(self.fields)}"]
        stems = [*docs, "--stemmer=english", "--stopwords=english", "--vectors", "--output={out}"]
        return [Command("words", "words", stems)]

    def transformer(
        self, name: str, candidates: str, seed: int, start: Sequence[str], blank: bool = False
    ) -> list[Command]:
        """A fine-tuned transformer; the step joined_NAME has the tested folds, blank_NAME its rankings with blank queries."""
        return cross_validation(
            name,
            self.collection,
            folds=self.fold_file,
            fold_names=self.fold_names(),
            only=self.tested,
            config=self.finetune,
            candidates=candidates,
            settings=[*start, f"seed={seed}", *self.settings],
            rerank=self.rerank,
            blank=blank,
        )

    def neural_ranker(self, name: str, model: str, candidates: str, seed: int) -> list[Command]:
        """A neural ranker of NEURAL, after the steps of `words`; the step joined_NAME has the tested folds."""
        vectors = [] if model == "duet" else ["vectors={words}/vectors.txt"]
        return cross_validation(
            name,
            self.collection,
            folds=self.fold_file,
            fold_names=self.fold_names(),
            only=self.tested,
            config=f"configs/baselines/neural.py:{model}",
            candidates=candidates,
            settings=["tokenizer={words}", *vectors, f"seed={seed}", *self.neural],
            export=False,
        )

    def evaluation(self) -> list[str]:
        """Options of `harp evaluate`: the measures to test, and the tested folds."""
        folds = [f"--folds={self.fold_file}", f"--fold={','.join(self.tested)}"] if self.tested else []
        return [f"--confirm={self.confirm or self.measure}", *folds]


BENCHMARK = Benchmark()  # the defaults of plans


def labelled(candidates: Sequence[str]) -> dict[str, str]:
    """Label → run, from NAME=RUN or RUN. InputError for a label given twice, and for one without a run."""
    found: dict[str, str] = {}
    for given in candidates:
        label, equals, path = given.partition("=")
        if not equals:
            label, path = os.path.basename(given).split(".")[0], given
        if not path or identifier(label) in map(identifier, found):
            raise InputError(f"candidates={given}: write NAME=RUN, and every name once")
        found[label] = path
    return found


def identifier(label: str) -> str:
    """A label as part of a step's name."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def seeds_of(name: str, seeds: Sequence[int]) -> list[str]:
    """How a table refers to the runs of one system, "{NAME_s0}" and so on."""
    return output_of(*(f"{name}_s{seed}" for seed in seeds))
