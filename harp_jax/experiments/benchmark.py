"""A judged collection on which rankers are trained and tested: in folds of its queries, or on separate test sets."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.baselines.neural_ir.scorer import rerank_files as rerank_neural
from harp_jax.config import load_config
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.corpus.trec import read_folds
from harp_jax.evaluation.report import Evaluation, Page, report_files
from harp_jax.experiments.experiment import check_known, labelled, need_files, parsed_settings
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.fuse import fuse_files
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.ranking.tune_first_stage import tune_files
from harp_jax.training.recorded import last_metrics, recorded, train

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
NEURAL_CONFIG = "baselines/neural"


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

    def checked(self, *needed: str) -> "Benchmark":
        """The benchmark with the paths of MS MARCO's files, if `folder` is given. Raises InputError for wrong options, and one that
        lists all missing files, those `needed` too."""
        reranking(self.fields, self.rerank)
        load_config(self.finetune, {}, self.settings)
        load_config(NEURAL_CONFIG, {}, self.neural)
        check_known("fields", self.fields, FIELDS)
        b = self.official() if self.folder else self
        runs, tests = labelled(b.candidates), b.test_sets()
        need_files(b.docs, b.queries, b.qrels, b.folds, *runs.values(), *itertools.chain(*tests.values()), *needed)
        if tests and (b.folds or b.tested or len(runs) > 1):
            raise InputError(
                "test_queries replaces folds and tested, and allows one run in candidates; leave the others out"
            )
        if tests and runs and not all(test.run for test in tests.values()):
            raise InputError("candidates has a run for training, so name one for each test set in test_candidates")
        return b

    def official(self) -> "Benchmark":
        """The benchmark with the paths of MS MARCO's files in `folder`."""
        check_known("tests", self.tests, tuple(TESTS))
        check_known("bm25", [self.bm25], ("given", "tuned"))
        fixed = ("docs", "queries", "qrels", "folds", "tested", "test_queries", "test_qrels")
        if named := [name for name in fixed if getattr(self, name) != getattr(Benchmark, name)]:
            raise InputError(f"{named[0]} is read from folder={self.folder}; leave it out, or set folder to nothing")
        if bool(self.candidates) != bool(self.test_candidates):
            raise InputError("candidates and test_candidates go together: training needs the one, testing the other")
        docs, queries, qrels, top = (os.path.join(self.folder, file) for file in (DOCS, *TRAIN))
        test_queries, test_qrels, runs = (
            tuple(f"{test}={os.path.join(self.folder, TESTS[test][kind])}" for test in self.tests) for kind in range(3)
        )
        b = replace(self, docs=docs, queries=queries, qrels=qrels, test_queries=test_queries, test_qrels=test_qrels)
        if self.bm25 == "tuned" or self.candidates:
            return b
        return replace(b, candidates=(f"official={top}",), test_candidates=runs)

    def test_sets(self) -> dict[str, TestSet]:
        """Name → test set. Raises InputError if queries and judgments do not have the same names."""
        queries, qrels, runs = map(labelled, (self.test_queries, self.test_qrels, self.test_candidates))
        if queries.keys() != qrels.keys() or not runs.keys() <= queries.keys():
            raise InputError(
                "test_queries, test_qrels and test_candidates name different test sets; use the same names"
            )
        return {name: TestSet(queries[name], qrels[name], runs.get(name, "")) for name in queries}


class Bench:
    """A benchmark that is ready to train and rank on, with its results in the folder `output`.

    folds, fold_names, tested: file of the folds, made if there is none; all folds; those to test (("",) with test sets)
    tests: name → test set; candidates: label → run of the training queries; reranking: options of every re-ranking
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
        self.options = b = options.checked(*needed)
        self.output, self.steps, self.reranking = output, Steps(output), reranking(b.fields, b.rerank)
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
            training, rerank, config, texts = train_neural, rerank_neural, f"{NEURAL_CONFIG}:{neural}", b.neural
        collection: dict[str, Any] = {name: getattr(b, name) for name in ("docs", "queries", "qrels", "fields")}
        collection["candidates"] = candidates
        parts: dict[tuple[str, str], list[str]] = {}
        for fold in self.tested:
            own, label = name, name.replace("/", ": ")
            if fold:
                own, label = f"{name}_f{fold}", f"{label}, fold {fold}"
                others = tuple(other for other in self.fold_names if other != fold)
                collection |= {"folds": self.folds, "train_folds": others}
            workdir = f"{self.output}/{own}"
            self.steps(f"Train {label}", training, load_config(config, {**collection, **fields}, texts), workdir)
            for (test, one), suffix in itertools.product(self.tests.items(), ("", "_blank")[: 1 + blank]):
                options = replace(self.reranking, blank_query=bool(suffix), folds=self.folds, fold=fold)
                output = self.path(own, test, f"{suffix}.trec")
                title = f"Rank {test or 'queries'} with {label}" + (", blank queries" if suffix else "")
                self.steps(title, rerank, workdir, b.docs, one.queries, one.run or candidates, output, options)
                parts.setdefault((suffix, test), []).append(output)
        # The runs of all tested folds as one, NAME.trec or NAME_blank.trec.
        ranked: dict[str, Runs] = {"": {}, "_blank": {}}
        for (suffix, test), runs in parts.items():
            ranked[suffix][test] = runs[0]
            if len(runs) > 1:
                ranked[suffix][test] = f"{self.output}/{name}{suffix}.trec"
                fuse_files(tuple(runs), ranked[suffix][test], "join")
        return ranked[""], ranked["_blank"]

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


def reranking(fields: tuple[str, ...], texts: Sequence[str]) -> Reranking:
    """Options of a re-ranking, from texts such as "max_length=256". InputError for an unknown option or a wrong value."""
    default = Reranking(fields=fields)
    known = {name: 0 if value is None else value for name, value in vars(default).items()}
    return replace(default, **parsed_settings(texts, known, "rerank"))
