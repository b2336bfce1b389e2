"""The steps that plans of ranking experiments share: a tuned first stage, a trained re-ranker, a sum of runs, a table.

Arguments that are paths may be "{NAME}", the output of an earlier step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harp_jax.experiments.plan import Command


@dataclass(frozen=True)
class Collection:
    """What is ranked: documents, queries of all folds, their judgments, and the document fields that are read ((): default)."""

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
    """BM25, BM25F or QL (`model`), each fold ranked by parameters tuned on the others: steps tuned_NAME and NAME (the model's).

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
    """A re-ranker trained on a collection and the run that it makes: steps train_NAME, model_NAME (`export`) and run_NAME.

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


def reranked_again(ranking: Command, name: str, options: Sequence[str]) -> Command:
    """A re-ranking by the same model with more options, such as "blank_query"."""
    return Command(name, "rerank", [*ranking.arguments, *(f"--{option}" for option in options)], suffix=".trec")


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
    """The table of systems (row → runs, one a seed) against a baseline row; the step writes the values per query.

    `chance` is the row whose candidates are shuffled, `blank` the row of blank queries of a system.
    """
    rows = [f"{row}={','.join(runs)}" for row, runs in systems.items()]
    judged = [f"--qrels={qrels}", f"--measures={measures}", f"--baseline={baseline}", *options]
    judged += [f"--chance={chance}"] if chance else []
    judged += [f"--blank={system}={row}" for system, row in (blank or {}).items()]
    return Command(name, "evaluate", [*rows, *judged, "--per_query={out}"], suffix=".tsv")


def output_of(*names: str) -> list[str]:
    """How later steps refer to the outputs of steps."""
    return ["{" + name + "}" for name in names]
