"""What systems are compared on: a judged collection in folds, candidates to re-rank, and the recipe of fine-tuning.

A collection with separate training and test queries is one of two folds, "train" and "test", of which "test" is tested.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harp_jax.base.errors import InputError
from harp_jax.corpus.folds import read_folds
from harp_jax.experiments.cross_validation import BLANK, cross_validation
from harp_jax.experiments.plan import Command
from harp_jax.experiments.ranking_steps import Collection, output_of, tuned_first_stage

MADE_FOLDS = ("0", "1", "2", "3", "4")  # where no file of folds is given
NEURAL = ("drmm", "duet", "knrm", "conv_knrm")


@dataclass(frozen=True)
class Benchmark:
    """A judged collection, the runs that are re-ranked, and how rankers are trained and tested.

    docs: documents
    queries: training and test queries
    qrels: judgments of both
    fields: document fields that are read
    folds: file of qid<TAB>fold; empty: five folds that share no relevant document
    tested: folds that are tested, each by models trained on all others (empty: all)
    candidates: runs to re-rank, NAME=RUN or RUN; empty: BM25, tuned on the other folds
    depth: candidates of BM25 for each query
    measures: of the tables; the first one decides what is tuned and what is called chance
    confirm: measures whose differences are tested, chosen beforehand (empty: the first)
    finetune: fine-tuning config of the transformers
    settings: fields of every fine-tuning, as in epochs=1.0
    neural: fields of every training of a neural ranker
    rerank: options of every re-ranking, as in max_length=256
    seeds: of pre-training and fine-tuning
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
            raise InputError(f"tested={unknown[0]}: {self.folds or 'the folds'} are {', '.join(names)}")
        if len(names) < 2:
            raise InputError(f"{self.folds} has one fold only; a ranker is trained on at least one other")
        return names

    def runs(self) -> dict[str, str]:
        """Label → run that is re-ranked: the given ones, or {"BM25": "{bm25}"}. InputError for a label given twice."""
        if not self.candidates:
            return {"BM25": "{bm25}"}
        found: dict[str, str] = {}
        for given in self.candidates:
            label, equals, path = given.partition("=")
            if not equals:
                label, path = os.path.basename(given).split(".")[0], given
            if identifier(label) in map(identifier, found):
                raise InputError(f"candidates={given}: two runs are named {label}; write NAME=RUN with other names")
            found[label] = path
        return found

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
        """A fine-tuned transformer; the step joined_NAME has the tested folds, blank_NAME its rankings of blank queries."""
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
            variants=BLANK if blank else None,
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
            config=f"configs/baselines/{model}.py",
            candidates=candidates,
            settings=["tokenizer={words}", *vectors, f"seed={seed}", *self.neural],
            export=False,
        )

    def evaluation(self) -> list[str]:
        """Options of `harp evaluate`: the measures that are tested, and the tested folds."""
        folds = [f"--folds={self.fold_file}", f"--fold={','.join(self.tested)}"] if self.tested else []
        return [f"--confirm={self.confirm or self.measure}", *folds]


BENCHMARK = Benchmark()  # the defaults of plans


def identifier(label: str) -> str:
    """A label as part of a step's name."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def seeds_of(name: str, seeds: Sequence[int]) -> list[str]:
    """How a table refers to the runs of one system, "{NAME_s0}" and so on."""
    return output_of(*(f"{name}_s{seed}" for seed in seeds))
