"""A judged collection on which systems are compared: candidates, training, ranking, and the table.

A ranker is tested in one of two ways: in each fold of the queries, trained on all others, the folds' runs joined; or, with test
queries of their own (`test_queries`), once trained, on each of their sets. BM25 and QL are tuned on the training queries in the
same way.
"""

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored
from harp_jax.base.steps import Steps
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.corpus.trec import read_folds
from harp_jax.evaluation.from_files import Evaluation, report_files
from harp_jax.evaluation.report import Page
from harp_jax.experiments.calls import configured, train
from harp_jax.experiments.experiment import parsed
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.fuse import fuse_files
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.ranking.tune_first_stage import tune_files
from harp_jax.text.words import VECTORS, write_words

NEURAL, NEURAL_CONFIG = ("drmm", "duet", "knrm", "conv_knrm"), "baselines/neural"
# NAME_given: trained on top of given word vectors, which stay as they are.
GIVEN: dict[str, Any] = {"model.train_vectors": False, "learning_rate": 1e-2}
FOLDED = ""  # the name of the test set in cross-validation
Runs = dict[str, str]  # test set → run


@dataclass(frozen=True)
class TestSet:
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
    depth: int = 100
    measures: str = "RR@10 RR@100 nDCG@10 nDCG@100"
    tune_for: str = ""
    confirm: str = ""
    finetune: str = "finetune"
    settings: tuple[str, ...] = ()
    neural: tuple[str, ...] = ()
    rerank: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)

    @property
    def runs(self) -> dict[str, str]:
        """Label → run of `queries` to re-rank; {"BM25": ""} if none is given."""
        return labelled(self.candidates) or {"BM25": ""}

    @property
    def tests(self) -> dict[str, TestSet]:
        """Name → test set. Raises InputError if queries and judgments do not have the same names."""
        texts, judged, runs = map(labelled, (self.test_queries, self.test_qrels, self.test_candidates))
        if texts.keys() != judged.keys() or not runs.keys() <= texts.keys():
            raise InputError(
                "test_queries, test_qrels and test_candidates name different test sets; use the same names"
            )
        return {name: TestSet(texts[name], judged[name], runs.get(name, "")) for name in texts}

    @property
    def ranking(self) -> Reranking:
        """The options of every re-ranking."""
        return with_options(Reranking(fields=self.fields), self.rerank, "rerank")

    def check(self, *more: str) -> None:
        """Raises InputError that lists all missing files, `more` too, and for wrong options, before anything starts."""
        _ = self.ranking, configured(self.finetune, {}, self.settings), configured(NEURAL_CONFIG, {}, self.neural)
        tests = [path for test in self.tests.values() for path in (test.queries, test.qrels, test.run)]
        need_files(self.docs, self.queries, self.qrels, self.folds, *self.runs.values(), *tests, *more)
        if tests and (self.folds or self.tested or len(self.runs) > 1):
            raise InputError(
                "test_queries replaces folds and tested, and allows one run in candidates; leave the others out"
            )
        if tests and self.candidates and len(labelled(self.test_candidates)) < len(self.tests):
            raise InputError("candidates has a run for training, so name one for each test set in test_candidates")

    def divided(self, steps: Steps, grouped: bool = True) -> "Prepared":
        """The training folds and test sets; makes folds if there are none, `grouped` by relevant documents."""
        folds, tests = self.folds, self.tests
        names: tuple[str, ...] = ("",)
        if not tests:
            if not folds:
                folds = f"{steps.output}/folds.tsv"
                fold_queries(self.queries, folds, qrels=self.qrels if grouped else "")
            names = tuple(sorted(set(read_folds(folds).values())))
            if unknown := [fold for fold in self.tested if fold not in names]:
                raise InputError(f"tested={unknown[0]} is not a fold; the folds of {folds} are {', '.join(names)}")
            if len(names) < 2:
                raise InputError(f"{folds} has only one fold; a ranker needs at least one other to train on")
            tests = {FOLDED: TestSet(self.queries, self.qrels)}
        return Prepared(self, steps, folds, names, tests)

    def prepared(self, steps: Steps) -> "Prepared":
        """As `divided`, with candidates: the given runs, or BM25's best documents."""
        found = self.divided(steps)
        if self.candidates:
            return replace(found, candidates=self.runs)
        first = found.lexical("bm25", "bm25", k=self.depth)
        tests = {name: replace(test, run=test.run or first[name]) for name, test in found.tests.items() if name}
        return replace(found, candidates={"BM25": first[FOLDED]}, tests=tests or found.tests)


BENCHMARK = Benchmark()


@dataclass(frozen=True)
class Prepared:
    """A benchmark with its files: candidates (label → run of the training queries), folds, test sets."""

    given: Benchmark
    steps: Steps
    folds: str
    fold_names: tuple[str, ...]
    tests: dict[str, TestSet]
    candidates: dict[str, str] = field(default_factory=dict)

    @property
    def tuned_for(self) -> str:
        """The measure that first stages and sums are tuned for."""
        return self.given.tune_for or self.given.measures.split()[0]

    @property
    def tested(self) -> tuple[str, ...]:
        """The folds to test; ("",) with test sets."""
        return self.given.tested or self.fold_names

    def lexical(
        self,
        model: str,
        name: str,
        run: str = "",
        anchors: str = "",
        k: int | None = None,
        exclude: str = "",
        grid: Mapping[str, tuple[float, ...]] | None = None,
    ) -> Runs:
        """BM25, BM25F or QL, tuned on the training queries: NAME.json, NAME.trec and NAME_TEST.trec.

        `run`: candidates of the training queries to re-rank (test sets: their own); `anchors`: anchor texts; `exclude`: pairs that
        are no candidates; `grid`: values to try.
        """
        b, steps, place = self.given, self.steps, f"{self.steps.output}/{name}"
        index = Candidates(b.docs, b.fields, exclude=exclude, k=k, anchors=anchors)
        steps(
            f"Tune {name}", tune_files, index, queries=b.queries, qrels=b.qrels, output=f"{place}.json", model=model,
            measure=self.tuned_for, run=run, folds=self.folds, axes=grid,
        )  # fmt: skip
        tuned: dict[str, Any] = {"model": model, "tuned": f"{place}.json", "folds": self.folds}
        found = {}
        sets = {FOLDED: TestSet(b.queries, b.qrels, run)} | self.tests if not run or self.folds else self.tests
        for test, one in sets.items():
            found[test] = f"{place}_{test}.trec" if test else f"{place}.trec"
            title = f"Rank {test or 'the queries'} with {name}"
            given = run if test == FOLDED else one.run if run else ""
            steps(title, first_stage_files, index, queries=one.queries, output=found[test], run=given, **tuned)
        return found

    def ranker(
        self,
        name: str,
        config: str,
        candidates: str,
        fields: Mapping[str, Any],
        texts: Sequence[str] = (),
        blank: bool = False,
        only: str = "",
    ) -> tuple[Runs, Runs]:
        """Trains a re-ranker on the training queries and ranks the test sets: NAME_fFOLD (workdirs), NAME_TEST.trec.

        `fields` and `texts` are for its config. Returns its runs, and with `blank` those with blank queries. `only` restricts
        the training queries to those in a file.
        """
        b, steps, rerank = self.given, self.steps, rerank_files
        if config.startswith(NEURAL_CONFIG):
            from harp_jax.baselines.neural_ir.scorer import rerank_files as rerank_neural

            rerank = rerank_neural
        collection: dict[str, Any] = {"docs": b.docs, "queries": b.queries, "qrels": b.qrels, "fields": b.fields}
        collection |= {"candidates": candidates} | ({"train_queries": only} if only else {})
        parts: dict[tuple[str, bool], list[str]] = {}
        for fold in self.tested:
            workdir, label = f"{steps.output}/{name}", name.replace("/", ": ")
            if fold:
                workdir, label = f"{workdir}_f{fold}", f"{label}, fold {fold}"
                others = tuple(other for other in self.fold_names if other != fold)
                collection |= {"folds": self.folds, "train_folds": others}
            steps(f"Train {label}", train, configured(config, {**collection, **fields}, texts), workdir)
            for test, one in self.tests.items():
                for blanked in (False, True)[: 1 + blank]:
                    options = replace(b.ranking, blank_query=blanked, folds=self.folds, fold=fold)
                    output = f"{workdir}{f'_{test}' if test else ''}{'_blank' if blanked else ''}.trec"
                    title = f"Rank {test or 'queries'} with {label}" + ", blank queries" * blanked
                    steps(title, rerank, workdir, b.docs, one.queries, one.run or candidates, output, options)
                    parts.setdefault((test, blanked), []).append(output)
        return self._joined(name, parts, False), self._joined(name, parts, True)

    def _joined(self, name: str, parts: Mapping[tuple[str, bool], list[str]], blanked: bool) -> Runs:
        """The runs of all tested folds as one, NAME.trec or NAME_blank.trec."""
        found = {test: runs[0] for (test, blank), runs in parts.items() if blank == blanked}
        if FOLDED in found and len(runs := parts[FOLDED, blanked]) > 1:
            found[FOLDED] = f"{self.steps.output}/{name}{'_blank' * blanked}.trec"
            fuse_files(tuple(runs), found[FOLDED], "join")
        return found

    def transformer(
        self, name: str, candidates: str, seed: int, start: Mapping[str, Any], **options: Any
    ) -> tuple[Runs, Runs]:
        """A re-ranker fine-tuned with `Benchmark.finetune` from `start` (`Pretraining.systems`); as `ranker`."""
        fields = {**start, "seed": seed}
        return self.ranker(name, self.given.finetune, candidates, fields, self.given.settings, **options)

    def neural(self, name: str, system: str, candidates: str, seed: int) -> Runs:
        """A neural ranker of NEURAL, or NAME_given, with the words of `words`; as `ranker`."""
        words, model = f"{self.steps.output}/words", system.removesuffix("_given")
        fields = {"tokenizer": words, "seed": seed} | (GIVEN if model != system else {})
        fields |= {} if model == "duet" else {"vectors": f"{words}/{VECTORS}"}
        return self.ranker(name, f"{NEURAL_CONFIG}:{model}", candidates, fields, self.given.neural)[0]

    def words(self) -> None:
        """What neural rankers need: stems and word vectors of the documents."""
        words = f"{self.steps.output}/words"
        self.steps("Count words, train word vectors", write_words, self.given.docs, words, self.given.fields)

    def summed(self, name: str, runs: Sequence[Runs], normalise: str = "minmax", measure: str = "") -> Runs:
        """The sum of runs of all folds, each fold's weights fitted on the others, in NAME.trec."""
        output, measure = f"{self.steps.output}/{name}.trec", measure or self.tuned_for
        paths, qrels = tuple(run[FOLDED] for run in runs), self.given.qrels
        fuse_files(paths, output, "weights", normalise=normalise, qrels=qrels, folds=self.folds, measure=measure)
        return {FOLDED: output}

    def averaged(self, name: str, runs: Sequence[Runs]) -> Runs:
        """The mean of runs' normalised scores, in NAME.trec, NAME_TEST.trec."""
        found = {test: f"{self.steps.output}/{name}{f'_{test}' if test else ''}.trec" for test in runs[0]}
        for test, output in found.items():
            fuse_files(tuple(run[test] for run in runs), output, "mean")
        return found

    def table(
        self,
        name: str,
        rows: Mapping[str, Sequence[Runs]],
        baseline: str,
        chance: str = "",
        blank: Mapping[str, str] | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        """Prints a table of each test set and writes it as NAME_TEST.tsv and .html. `rows`: system → its runs, one per seed."""
        b = self.given
        for test, one in self.tests.items():
            place = f"{self.steps.output}/{name}" + (f"_{test}" if test else "")
            chosen: dict[str, Any] = {"folds": self.folds, "fold": b.tested} if b.tested else {}
            show(
                Evaluation(
                    one.qrels, {row: [run[test] for run in runs] for row, runs in rows.items()}, **chosen, measures=b.measures,
                    baseline=baseline, confirm=b.confirm or b.measures, chance=chance, blank=blank or {},
                ),
                place, f"{name}{f', {test}' if test else ''}", remarks,
            )  # fmt: skip


def show(evaluation: Evaluation, place: str, title: str, remarks: Sequence[str] = ()) -> None:
    """Prints a table; writes the values per query to PLACE.tsv and a page to PLACE.html."""
    page = Page(title=title, remarks=tuple(remarks))
    printed = report_files(evaluation, page, f"{place}.html", values=f"{place}.tsv")
    print(f"\n{title}\n{printed}\n{place}.html", flush=True)


def need_files(*paths: str) -> None:
    """Raises InputError with all paths and patterns for which there is no file, compressed or not."""
    given = dict.fromkeys(path for path in paths if path and not is_irds(path))
    there = [path for path in given if os.path.exists(as_stored(path)) or glob.glob(path, recursive=True)]
    if missing := [path for path in given if path not in there]:
        raise InputError(
            f"missing: {', '.join(missing)}; nothing was started. Put them there, or name yours with --set"
        )


def labelled(given: Sequence[str]) -> dict[str, str]:
    """Label → path, from NAME=PATH or PATH. InputError for a label given twice, and for one without a path."""
    found: dict[str, str] = {}
    for one in given:
        label, equals, path = one.partition("=")
        if not equals:
            label, path = os.path.basename(one).split(".")[0], one
        if not path or not label or os.sep in label or label.lower() in map(str.lower, found):
            raise InputError(f"{one}: write NAME=PATH, and every name once")
        found[label] = path
    return found


def with_options(options: Reranking, texts: Sequence[str], option: str) -> Reranking:
    """Options with fields from texts such as "max_length=256". InputError for an unknown field or a wrong value."""
    known = {each.name: getattr(options, each.name) for each in fields(options)}
    try:
        pairs = [text.partition("=") for text in texts]
        values = {name: parsed(text, 0 if known[name] is None else known[name]) for name, _, text in pairs}
        return replace(options, **values)  # type: ignore[arg-type]
    except (KeyError, ValueError) as error:
        raise InputError(f"{option}={','.join(texts)}: {error}; options are {', '.join(known)}") from error
