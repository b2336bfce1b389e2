"""Systems on each run of candidates, with significance marks, chance and blank queries: what HARP's Tables 2 to 4 are made of.

harp plan tables --output=tables --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/
… --set candidates=ANCE=ance.trec,BM25=bm25.trec                                                          one table for each run
harp plan tables --output=cv --set lexical= --set neural_rankers= --set transformers=none --set init=runs/harp …   one fine-tuning

Every pre-trained system (`Pretraining`) reads the same pages, starts from the same parameters and gets the same number of updates;
only tasks and loss weights differ. It is fine-tuned and ranks in one of two ways (`Benchmark`): in each fold of the queries,
trained on all others, the folds' runs joined; or, with separate test queries (`test_queries`, or MS MARCO's files in `folder`),
once trained, each of their sets.

Rows: the candidates; BM25 and QL, and what links say without training: BM25F with a field of anchor texts, BM25 over documents
expanded by their anchor texts, and the candidates' score with log in-links or log length added. These are tuned, weights included,
on training queries; bm25f, expanded and inlinks read `source`. Then the neural rankers, and transformers without pre-training and
after MLM alone, ICT, WLP, PROP and HARP. `target_pairs` (harp generate, task prop, on the collection itself) adds PROP on the
target collection, as in the paper's PROP (MARCO). no_mlm, no_rqp and so on are HARP without that loss, with the same updates: the
other tasks get its share. sjtf is not pre-trained; its fine-tuning also predicts masked query tokens (configs/baselines/sjtf.py).

`ensembles` adds, for each neural ranker and transformer, the sum with the candidates' score, weighted as is best on the other folds
(+), the mean of its seeds' normalised scores, and last the weighted sum of all transformers and the candidates. A gain of HARP that
the sum with BM25 closes was lexical.

† marks values that differ from HARP (with `ensembles`, HARP with the candidates): p < .05 in both tests after Holm's correction.
By the first measure, a system may be flagged "not above chance" or "no better than with its query blanked" (`blank`). The claim
that pre-training from links helps rests on pairs without the judged documents: --set generation=exclude_destinations=judged.txt;
without it popularity explains part of the result. (The rows of anchor texts then lack the same links.)

Hardware: any. The scale `tiny` (BERT-tiny, 600 updates) checks the pipeline on two cores and is far too small to rank the systems.
Figures: docs/lab/neural.md for neural rankers, docs/lab/links.md for links; the others not run yet.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.config import PRESETS, load_config
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.corpus.trec import read_folds
from harp_jax.evaluation.from_files import Evaluation, report_files
from harp_jax.evaluation.report import Page
from harp_jax.experiments.experiment import check_known, labelled, need_files, parsed_settings
from harp_jax.ranking.first_stage import Candidates, first_stage_files, prior_files
from harp_jax.ranking.fuse import fuse_files
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.ranking.tune_first_stage import tune_files
from harp_jax.text.words import VECTORS, write_words
from harp_jax.training.recorded import last_metrics, recorded, train

# Pre-training: system → how it differs from HARP's.
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

# Rows of the tables.
LEXICAL = ("bm25", "ql", "bm25f", "expanded", "inlinks", "length")
NEURAL, NEURAL_CONFIG = ("drmm", "duet", "knrm", "conv_knrm"), "baselines/neural"
# NAME_given: trained on top of given word vectors, which stay unchanged.
GIVEN: dict[str, Any] = {"model.train_vectors": False, "learning_rate": 1e-2}
TRANSFORMERS = (NONE, "mlm", "ict", "wlp", "prop", "harp")

# MS MARCO's official files: queries, judgments, top 100.
DOCS = "msmarco-docs.tsv"
TRAIN = ("msmarco-doctrain-queries.tsv", "msmarco-doctrain-qrels.tsv", "msmarco-doctrain-top100")
TESTS = {
    "dev": ("msmarco-docdev-queries.tsv", "msmarco-docdev-qrels.tsv", "msmarco-docdev-top100"),
    "dl2019": ("msmarco-test2019-queries.tsv", "2019qrels-docs.txt", "msmarco-doctest2019-top100"),
    "dl2020": ("msmarco-test2020-queries.tsv", "2020qrels-docs.txt", "msmarco-doctest2020-top100"),
}
FOLDED = ""  # the name of the test set in cross-validation
Runs = dict[str, str]  # test set → run


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

    def job(self, tasks: Sequence[str], *texts: str) -> ConfigDict:
        """The config of the generation job, or of another command that reads the pages."""
        fields: dict[str, Any] = {"tokenizer": self.vocabulary, "encoder": self.encoder, "tasks": tuple(tasks)}
        fields |= {"source.paths": self.source} if self.source else {}
        return load_config(self.source_config, fields, (*self.generation, *texts))

    def generated(self, steps: Steps, tasks: Sequence[str]) -> str:
        """The folder of the pairs of these tasks: the given ones, or OUTPUT/pairs."""
        from data_pipeline.pipeline import generate

        if not self.pairs:
            steps("Generate pairs from links", generate, self.job(tasks), f"{steps.output}/pairs")
        return self.pairs or f"{steps.output}/pairs"

    def trained(
        self, steps: Steps, name: str, pairs: str, seed: int, changes: Mapping[str, Any], config: str = "",
        texts: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """The workdir OUTPUT/NAME_sSEED of a system; its config differs from `config` in `changes` and `texts`."""
        fields = SCALES[self.scale] | {"init": self.init, "tokenizer": self.vocabulary, "seed": seed, "data": (pairs,)}
        training = load_config(config or self.config, fields, (*self.pretrain, *texts))
        training.update_from_flattened_dict(dict(changes))
        workdir = f"{steps.output}/{name}_s{seed}"
        steps(f"Pre-train {name}, seed {seed}", train, training, workdir)
        return workdir

    def starts(self, steps: Steps, systems: Sequence[str], seeds: Sequence[int]) -> dict[tuple[str, int], dict]:
        """(system, seed) → the fields of a fine-tuning that starts from it."""
        starts: dict[tuple[str, int], dict[str, Any]] = {}
        if with_pairs := [name for name in systems if name not in NOT_PRETRAINED]:
            more = SYSTEMS[RECOMMENDED]["tasks"] if RECOMMENDED in systems else ()
            pairs = self.generated(steps, tuple(dict.fromkeys((*TASKS, *more))))
        for name in with_pairs:
            config = "baselines/harp:recommended" if name == RECOMMENDED else ""
            for seed in seeds:
                starts[name, seed] = {"init": self.trained(steps, name, pairs, seed, SYSTEMS[name], config)}
        size = {name: value for name, value in SCALES[self.scale].items() if name.startswith("model.")}
        untrained = {"init": "", "tokenizer": self.vocabulary, **size}
        for name in set(systems) & NOT_PRETRAINED.keys():
            fields = {"init": self.init} if self.init else untrained
            starts |= {(name, seed): fields | NOT_PRETRAINED[name] for seed in seeds}
        return starts


class TestSet(NamedTuple):
    """Queries to rank, their judgments, and their candidates (empty: those of the first stage)."""

    queries: str
    qrels: str
    run: str = ""


@dataclass(frozen=True)
class Benchmark:
    """A judged collection, the runs to re-rank, and how rankers are trained and tested.

    docs: documents
    queries: training queries, and those of all folds
    qrels: judgments of these queries
    fields: document fields to read
    folds: file of qid<TAB>fold lines; empty: five folds that share no relevant document
    tested: folds to test, each with models trained on all others (empty: all)
    test_queries: NAME=QUERIES of separate test sets, instead of folds
    test_qrels: their judgments, NAME=QRELS
    test_candidates: their runs to re-rank, NAME=RUN; empty: BM25, tuned on the training queries
    candidates: runs of `queries` to re-rank, NAME=RUN or RUN; empty: BM25, tuned on the training queries
    folder: folder of MS MARCO's official files, instead of all of the above but `fields` and runs
    tests: of these files: dev, dl2019, dl2020
    bm25: of these files: given: re-rank the official top 100; tuned: BM25's top `depth`, tuned on training queries
    depth: BM25 candidates per query
    measures: measures in the tables; the first one decides which systems are at chance level
    tune_for: measure that first stages and weights of sums are tuned for; empty: the first
    confirm: measures whose differences are tested, chosen in advance (empty: all)
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
    test_queries: tuple[str, ...] = ()
    test_qrels: tuple[str, ...] = ()
    test_candidates: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    folder: str = ""
    tests: tuple[str, ...] = tuple(TESTS)
    bm25: str = "given"
    depth: int = 100
    measures: str = "RR@10 RR@100 nDCG@10 nDCG@100"
    tune_for: str = ""
    confirm: str = ""
    finetune: str = "finetune"
    settings: tuple[str, ...] = ()
    neural: tuple[str, ...] = ()
    rerank: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)

    def official(self) -> "Benchmark":
        """The benchmark with the paths of MS MARCO's files in `folder`, if it is given."""
        if not self.folder:
            return self
        check_known("tests", self.tests, tuple(TESTS))
        check_known("bm25", [self.bm25], ("given", "tuned"))
        fixed = ("docs", "queries", "qrels", "folds", "tested", "test_queries", "test_qrels")
        if named := [name for name in fixed if getattr(self, name) != getattr(Benchmark, name)]:
            raise InputError(f"{named[0]} is read from folder={self.folder}; leave it out, or set folder to nothing")
        if bool(self.candidates) != bool(self.test_candidates):
            raise InputError("candidates and test_candidates go together: training needs the one, testing the other")
        queries, qrels, top = (os.path.join(self.folder, file) for file in TRAIN)
        test_queries, test_qrels, runs = (
            tuple(f"{test}={os.path.join(self.folder, TESTS[test][kind])}" for test in self.tests) for kind in range(3)
        )
        given = self.bm25 == "given" and not self.candidates
        return replace(
            self, folder="", docs=os.path.join(self.folder, DOCS), queries=queries, qrels=qrels,
            test_queries=test_queries, test_qrels=test_qrels,
            candidates=(f"official={top}",) if given else self.candidates,
            test_candidates=runs if given else self.test_candidates,
        )  # fmt: skip

    def test_sets(self) -> dict[str, TestSet]:
        """Name → test set. Raises InputError if queries and judgments do not have the same names."""
        queries, qrels, runs = map(labelled, (self.test_queries, self.test_qrels, self.test_candidates))
        if queries.keys() != qrels.keys() or not runs.keys() <= queries.keys():
            raise InputError(
                "test_queries, test_qrels and test_candidates name different test sets; use the same names"
            )
        return {name: TestSet(queries[name], qrels[name], runs.get(name, "")) for name in queries}

    def check(self, *more: str) -> None:
        """Raises InputError that lists all missing files, `more` too, and for wrong options, before anything starts."""
        reranking(self.fields, self.rerank)
        load_config(self.finetune, {}, self.settings)
        load_config(NEURAL_CONFIG, {}, self.neural)
        runs, tests = labelled(self.candidates), self.test_sets()
        tested = [path for test in tests.values() for path in test]
        need_files(self.docs, self.queries, self.qrels, self.folds, *runs.values(), *tested, *more)
        if tests and (self.folds or self.tested or len(runs) > 1):
            raise InputError(
                "test_queries replaces folds and tested, and allows one run in candidates; leave the others out"
            )
        if tests and runs and not all(test.run for test in tests.values()):
            raise InputError("candidates has a run for training, so name one for each test set in test_candidates")


class Bench:
    """A benchmark that is ready to train and rank on, with its results in the folder `output`.

    folds, fold_names, tested: file of the folds, made if there is none; all folds; those to test (("",) with test sets)
    tests: name → test set; candidates: label → run of the training queries
    """

    def __init__(
        self,
        output: str,
        options: Benchmark,
        needed: Sequence[str] = (),
        grouped: bool = True,
        first_stage: bool = True,
    ) -> None:
        """Checks all files first, those `needed` too. Folds are `grouped` by relevant documents. With `first_stage`, BM25's best
        documents are the candidates if the options name none."""
        self.options = b = options.official()
        b.check(*needed)
        self.output, self.steps = output, Steps(output)
        self.folds, self.tests = b.folds, b.test_sets()
        self.fold_names: tuple[str, ...] = ("",)
        if not self.tests:
            self.tests = {FOLDED: TestSet(b.queries, b.qrels)}
            if not b.folds:
                self.folds = f"{output}/folds.tsv"
                fold_queries(b.queries, self.folds, qrels=b.qrels if grouped else "")
            self.fold_names = tuple(sorted(set(read_folds(self.folds).values())))
            if unknown := [fold for fold in b.tested if fold not in self.fold_names]:
                names = ", ".join(self.fold_names)
                raise InputError(f"tested={unknown[0]} is not a fold; the folds of {self.folds} are {names}")
            if len(self.fold_names) < 2:
                raise InputError(f"{self.folds} has only one fold; a ranker needs at least one other to train on")
        self.tested = b.tested or self.fold_names
        self.tuned_for = b.tune_for or b.measures.split()[0]
        self.candidates = labelled(b.candidates)
        if first_stage and not self.candidates:
            best = self.lexical("bm25", "bm25", k=b.depth)
            self.candidates = {"BM25": best[FOLDED]}
            for name, test in self.tests.items() if FOLDED not in self.tests else ():
                self.tests[name] = test._replace(run=test.run or best[name])

    def path(self, name: str, test: str, suffix: str = ".trec") -> str:
        """Where a result on a test set is written: OUTPUT/NAME_TEST.trec."""
        return f"{self.output}/{name}{f'_{test}' if test else ''}{suffix}"

    def lexical(self, model: str, name: str, run: str = "", grid: Any = None, **options: Any) -> Runs:
        """BM25, BM25F or QL, tuned on the training queries: NAME.json, NAME.trec and NAME_TEST.trec.

        `run`: candidates of the training queries to re-rank (test sets: their own); `grid`: values to try; `options`: those of
        `Candidates`.
        """
        b, parameters = self.options, f"{self.output}/{name}.json"
        index = Candidates(b.docs, b.fields, **options)
        self.steps(
            f"Tune {name}", tune_files, index, queries=b.queries, qrels=b.qrels, output=parameters, model=model,
            measure=self.tuned_for, run=run, folds=self.folds, axes=grid,
        )  # fmt: skip
        # The training queries are ranked for the candidates of their trainings, not to re-rank them.
        sets = self.tests if run else {FOLDED: TestSet(b.queries, b.qrels), **self.tests}
        ranked = {test: self.path(name, test) for test in sets}
        for test, one in sets.items():
            self.steps(
                f"Rank {test or 'the queries'} with {name}", first_stage_files, index, queries=one.queries, output=ranked[test],
                run=run and (one.run or run), model=model, tuned=parameters, folds=self.folds,
            )  # fmt: skip
        return ranked

    def ranker(
        self, name: str, fields: Mapping[str, Any], candidates: str, neural: str = "", blank: bool = False
    ) -> tuple[Runs, Runs]:
        """Trains a transformer, or the ranker `neural`, on the training queries and ranks the test sets: NAME_fFOLD (workdirs),
        NAME_TEST.trec. `fields` are for its config. Returns its runs, and with `blank` those with blank queries."""
        b, config, texts = self.options, self.options.finetune, self.options.settings
        training, rerank = train, rerank_files
        if neural:
            from harp_jax.baselines.neural_ir.scorer import rerank_files as rerank

            training, config, texts = train_neural, f"{NEURAL_CONFIG}:{neural}", b.neural
        collection: dict[str, Any] = {"docs": b.docs, "queries": b.queries, "qrels": b.qrels, "fields": b.fields}
        collection |= {"candidates": candidates}
        parts: dict[tuple[bool, str], list[str]] = {}
        for fold in self.tested:
            own, label = name, name.replace("/", ": ")
            if fold:
                own, label = f"{name}_f{fold}", f"{label}, fold {fold}"
                others = tuple(other for other in self.fold_names if other != fold)
                collection |= {"folds": self.folds, "train_folds": others}
            workdir = f"{self.output}/{own}"
            self.steps(f"Train {label}", training, load_config(config, {**collection, **fields}, texts), workdir)
            for test, one in self.tests.items():
                for blanked in (False, True)[: 1 + blank]:
                    options = reranking(b.fields, b.rerank, blank_query=blanked, folds=self.folds, fold=fold)
                    output = self.path(own, test, "_blank.trec" if blanked else ".trec")
                    title = f"Rank {test or 'queries'} with {label}" + ", blank queries" * blanked
                    self.steps(title, rerank, workdir, b.docs, one.queries, one.run or candidates, output, options)
                    parts.setdefault((blanked, test), []).append(output)
        # The runs of all tested folds as one, NAME.trec or NAME_blank.trec.
        ranked: tuple[Runs, Runs] = {}, {}
        for (blanked, test), runs in parts.items():
            ranked[blanked][test] = runs[0]
            if len(runs) > 1:
                ranked[blanked][test] = f"{self.output}/{name}{'_blank' * blanked}.trec"
                fuse_files(tuple(runs), ranked[blanked][test], "join")
        return ranked

    def fused(self, name: str, runs: Sequence[Runs], method: str, normalise: str = "minmax") -> Runs:
        """Runs combined in NAME_TEST.trec: "mean" of normalised scores, or "weights", each fold's fitted on the others."""
        fitted: dict[str, Any] = {"qrels": self.options.qrels, "folds": self.folds, "measure": self.tuned_for}
        fused = {test: self.path(name, test) for test in self.tests}
        for test, output in fused.items():
            paths = tuple(run[test] for run in runs)
            fuse_files(paths, output, method, normalise=normalise, **(fitted if method == "weights" else {}))
        return fused

    def table(
        self, name: str, rows: Mapping[str, Sequence[Runs]], baseline: str, chance: str = "",
        blank: Mapping[str, str] | None = None, remarks: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Prints a table of each test set and writes it as NAME_TEST.tsv and .html. `rows`: system → its runs, one per seed."""
        b = self.options
        for test, one in self.tests.items():
            runs = {row: [run[test] for run in of_seeds] for row, of_seeds in rows.items()}
            evaluation = Evaluation(
                one.qrels, runs, folds=self.folds if b.tested else "", fold=b.tested, measures=b.measures, baseline=baseline,
                confirm=b.confirm or b.measures, chance=chance, blank=blank or {},
            )  # fmt: skip
            show(evaluation, self.path(name, test, ""), f"{name}, {test}" if test else name, remarks)


def tables(
    output: str,
    pretraining: Pretraining = Pretraining(),
    benchmark: Benchmark = Benchmark(),
    lexical: tuple[str, ...] = LEXICAL,
    neural_rankers: tuple[str, ...] = NEURAL,
    transformers: tuple[str, ...] = TRANSFORMERS,
    target_pairs: str = "",
    blank: tuple[str, ...] = ("harp",),
    ensembles: bool = False,
    others: tuple[str, ...] = (),
    name: str = "table",
    remarks: tuple[str, ...] = (),
) -> None:
    """Trains and tests the systems, and prints a table for each run of candidates and test set.

    lexical: rows without neural networks, which hold an index of all documents in memory
    neural_rankers: rows of neural rankers; knrm_given and conv_knrm_given do not train the word vectors
    transformers: rows of transformers; none and sjtf are not pre-trained, recommended is the preset for small encoders
    target_pairs: finished PROP pairs from the target collection
    blank: transformers that also rank blank queries
    ensembles: add rows for sums with the candidates, over all seeds, and over all systems
    others: encoders that are fine-tuned without pre-training, and whose mean with the transformers is the row "ensemble"
    name: what the names of the tables' files begin with
    remarks: lines below the tables
    """
    from data_pipeline.output.collection import write_anchors

    check_known("lexical", lexical, LEXICAL)
    check_known("neural_rankers", neural_rankers, (*NEURAL, "knrm_given", "conv_knrm_given"))
    fitted = ensembles or not {"inlinks", "length"}.isdisjoint(lexical)
    if fitted and (benchmark.folder or benchmark.test_queries or len(benchmark.tested) == 1):
        raise InputError(
            "ensembles, inlinks and length fit weights on other tested folds: test two or more, and leave test_queries out"
        )
    bench = Bench(output, benchmark, (target_pairs, *others, *pretraining.files(transformers)))
    benchmark, steps, seeds = bench.options, bench.steps, benchmark.seeds

    # What each system's training on judged queries starts from: pre-trained transformers, once for all runs of candidates.
    starts = pretraining.starts(steps, transformers, seeds)
    for seed in seeds if target_pairs else ():
        workdir = pretraining.trained(steps, "prop_target", target_pairs, seed, SYSTEMS["prop"])
        starts["prop_target", seed] = {"init": workdir}
    encoders = {os.path.basename(os.path.normpath(path)): path for path in others}
    starts |= {(name, seed): {"init": path} for name, path in encoders.items() for seed in seeds}
    transformers = (*transformers, *(["prop_target"] if target_pairs else []), *encoders)

    # Anchor texts for lexical rows; stems and word vectors of the documents for neural rankers.
    anchors, words = f"{output}/anchors.tsv", f"{output}/words"
    if not {"bm25f", "expanded", "inlinks"}.isdisjoint(lexical):
        steps("Read anchor texts", write_anchors, pretraining.job(TASKS), anchors)
    if neural_rankers:
        steps("Count words, train word vectors", write_words, benchmark.docs, words, benchmark.fields)
    for system in neural_rankers:
        fields = {"tokenizer": words} | ({} if system == "duet" else {"vectors": f"{words}/{VECTORS}"})
        fields |= GIVEN if system.endswith("_given") else {}
        starts |= {(system, seed): fields for seed in seeds}

    for label, run in bench.candidates.items():
        folder = label.lower()
        first: Runs = {FOLDED: run} | {test: one.run for test, one in bench.tests.items() if one.run}
        rows: dict[str, list[Runs]] = {label: [first]}
        blanks = {}
        for system in lexical:
            if system.upper() != label.upper():
                rows[system] = [lexical_row(bench, system, f"{folder}/{system}", first, anchors)]
        for system in (*neural_rankers, *transformers):
            neural = system.removesuffix("_given") if system in neural_rankers else ""
            with_blank = system in blank and not neural
            both = [
                bench.ranker(f"{folder}/{system}_s{s}", {**starts[system, s], "seed": s}, run, neural, with_blank)
                for s in seeds
            ]
            rows[system] = [ranked for ranked, _ in both]
            if with_blank:
                blanks[system] = f"{system}_blank"
                rows[blanks[system]] = [blanked for _, blanked in both]
            if ensembles:
                rows[f"{system}+{label}"] = [
                    bench.fused(f"{folder}/{system}_s{seed}+{folder}", (first, one), "weights")
                    for seed, one in zip(seeds, rows[system])
                ]
            if ensembles and len(seeds) > 1:
                rows[f"{system} ensemble"] = [bench.fused(f"{folder}/{system}_mean", rows[system], "mean")]
        if others:
            every = [one for system in transformers for one in rows[system]]
            rows["ensemble"] = [bench.fused(f"{folder}/ensemble", every, "mean")]
        if ensembles and len(transformers) > 1:
            firsts = [rows[system][0] for system in transformers]
            rows["all"] = [bench.fused(f"{folder}/all", (first, *firsts), "weights")]
        baseline = (f"harp+{label}" if ensembles else "harp") if "harp" in transformers else label
        bench.table(f"{name}_{folder}", rows, baseline, (label, *neural_rankers, *transformers)[-1], blanks, remarks)


def lexical_row(bench: Bench, system: str, name: str, first: Runs, anchors: str) -> Runs:
    """The candidates `first`, re-ranked without neural networks."""
    if system in ("bm25", "ql"):
        return bench.lexical(system, name, first[FOLDED])
    if system in ("bm25f", "expanded"):
        return bench.lexical("bm25" if system == "expanded" else system, name, first[FOLDED], anchors=anchors)
    source = {"anchors": anchors} if system == "inlinks" else {"docs": bench.options.docs, "fields": ("body",)}
    prior = {FOLDED: f"{bench.output}/{name}_prior.trec"}
    prior_files(run=first[FOLDED], feature=system, output=prior[FOLDED], **source)
    return bench.fused(name, (first, prior), "weights", normalise="none")


@recorded
def train_neural(config: ConfigDict, output: str) -> dict[str, float]:
    """Trains a neural ranker in the workdir `output`, or resumes it; returns the last metrics."""
    from harp_jax.baselines.neural_ir.train import train

    return last_metrics(train, config, output)


def show(evaluation: Evaluation, place: str, title: str, remarks: Sequence[str] = ()) -> None:
    """Prints a table; writes the values per query to PLACE.tsv and a page to PLACE.html."""
    page = Page(title=title, remarks=tuple(remarks))
    printed = report_files(evaluation, page, f"{place}.html", values=f"{place}.tsv")
    print(f"\n{title}\n{printed}\n{place}.html", flush=True)


def reranking(fields: tuple[str, ...], texts: Sequence[str], **options: Any) -> Reranking:
    """Options of a re-ranking, also from texts such as "max_length=256". InputError for an unknown option or a wrong value."""
    given = replace(Reranking(fields=fields), **options)
    known = {name: 0 if value is None else value for name, value in vars(given).items()}
    return replace(given, **parsed_settings(texts, known, "rerank"))
