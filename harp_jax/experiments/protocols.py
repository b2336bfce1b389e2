"""Experiments with many trainings as one command each: k-fold cross-validation, and few-shot (or large) subsets.

    python -m harp_jax.experiments.protocols cross_validate --config=configs/finetune.py --docs=docs.tsv --queries=queries.tsv \
        --qrels=qrels.txt --run=bm25.trec --folds=folds.tsv --seeds=0,1,2 --output=cv --set init=runs/harp
    python -m harp_jax.experiments.protocols few_shot --config=… --test_queries=test.tsv --sizes=5,10,15,20 --set steps=100

Each is a plan of the project's own commands (`plan.py`): what is done is never repeated, and a killed one goes on. Every fold is
re-ranked by models that were trained on the other folds; the last command compares with the run that was re-ranked.
"""

import argparse
import os
import runpy
from collections.abc import Collection

from harp_jax.cli import run as run_command
from harp_jax.corpus.folds import read_folds
from harp_jax.corpus.trec import Qrels, read_ids, read_qrels, read_queries
from harp_jax.errors import InputError
from harp_jax.evaluation.evaluate import MEASURES
from harp_jax.experiments.plan import Command, execute, resolve, shown
from harp_jax.experiments.subsets import numbers
from harp_jax.files import replacing


def training(name: str, arguments: argparse.Namespace, seed: int, extra: list[str], only: list[str]) -> list[Command]:
    """Train, export, and re-rank the queries that the options `only` choose; the run is the last command, `run_NAME`.

    `arguments` has config, docs, queries, qrels, run (also "{an earlier command}"), and lists `set` and `rerank`.
    """
    data = [f"--config.{field}={getattr(arguments, field)}" for field in ("docs", "queries", "qrels")]
    data += [f"--config.candidates={arguments.run}", f"--config.seed={seed}", *extra]
    data += [f"--config.{setting}" for setting in arguments.set]
    ranked = [f"--docs={arguments.docs}", f"--queries={arguments.queries}", f"--run={arguments.run}", *only]
    ranked += [f"--{option}" for option in arguments.rerank]
    return [
        Command(f"train_{name}", "harp_jax.main", [f"--config={arguments.config}", "--workdir={out}", *data]),
        Command(f"model_{name}", "harp_jax.export", ["--workdir={train_" + name + "}", "--output={out}"]),
        Command(
            f"run_{name}",
            "rerank",
            ["--model={model_" + name + "}", *ranked, "--output={out}"],
            suffix=".trec",
        ),
    ]


def evaluation(
    arguments: argparse.Namespace, systems: dict[str, list[str]], queries: str, runs_per_draw: int = 1
) -> Command:
    """Compares systems (name → names of commands that make runs) with the first stage."""
    runs = [f"{name}=" + ",".join("{" + run + "}" for run in made) for name, made in systems.items()]
    given = [f"first_stage={arguments.run}", *runs, f"--qrels={arguments.qrels}", f"--queries={queries}"]
    given += [f"--measures={arguments.measures}", "--baseline=first_stage", "--per_query={out}"]
    given += [f"--runs_per_draw={runs_per_draw}"] if runs_per_draw > 1 else []
    return Command("evaluate", "evaluate", given, suffix=".tsv")


def judged_of(arguments: argparse.Namespace, wanted: Collection[str], where: str) -> str:
    """A file under --output with those of the wanted test queries that have judgments; says which have none.

    Raises InputError for queries without text: re-ranking would refuse them when the first training is done.
    """
    texts, judged = read_queries(arguments.queries), read_qrels(arguments.qrels)
    silent = [qid for qid in wanted if qid not in texts]
    if silent:
        raise InputError(f"{where}: {len(silent)} queries have no text in {arguments.queries}, {silent[0]} first")
    without = [qid for qid in wanted if qid not in judged]
    if len(without) == len(wanted):
        raise InputError(f"{where}: none of its queries has judgments in {arguments.qrels}")
    if without:
        print(f"note: {len(without)} queries of {where} have no judgments and are not evaluated, {without[0]} first")
    path = os.path.join(arguments.output, "evaluated.txt")
    listed(path, [qid for qid in wanted if qid in judged])
    return path


def cross_validation(arguments: argparse.Namespace) -> list[Command]:
    """For each seed and fold a model trained on the other folds; the folds' runs joined; one table."""
    folds = read_folds(arguments.folds)
    names = sorted(set(folds.values()))
    if len(names) < 2:
        raise InputError(f"{arguments.folds} has one fold only; cross-validation needs two at least")
    evaluated = judged_of(arguments, folds, arguments.folds)
    note_shared(folds, read_qrels(arguments.qrels))
    commands: list[Command] = []
    systems: list[str] = []
    for seed in arguments.seeds:
        runs = []
        for number, fold in enumerate(names):
            others = tuple(other for other in names if other != fold)
            extra = [f"--config.folds={arguments.folds}", f"--config.train_folds={others!r}"]
            only = [f"--folds={arguments.folds}", f"--fold={fold}"]
            commands += training(f"s{seed}_f{number}", arguments, seed, extra, only)
            runs.append("{run_s" + f"{seed}_f{number}" + "}")
        systems.append(f"joined_s{seed}")
        join = ["--method=join", *runs, "--output={out}"]
        commands.append(Command(systems[-1], "fuse", join, suffix=".trec"))
    return [*commands, evaluation(arguments, {arguments.name: systems}, evaluated)]


def note_shared(folds: dict[str, str], judged: Qrels) -> None:
    """Says how many relevant documents the folds have in common."""
    found: dict[str, set[str]] = {}
    for qid, fold in folds.items():
        for docid, level in judged.get(qid, {}).items():
            if level > 0:
                found.setdefault(docid, set()).add(fold)
    if shared := sum(len(of) > 1 for of in found.values()):
        print(
            f"note: {shared} of {len(found)} relevant documents are relevant to queries of several folds: a model may know which "
            "documents are asked about; `harp_jax.experiments.make_folds --qrels=…` keeps such queries together"
        )


def few_shot(arguments: argparse.Namespace) -> list[Command]:
    """For each draw, size and seed a model trained on so many queries; all tested on the same queries; one table.

    All are trained for the same number of steps, which the config or --set gives: epochs would give five queries a quarter of
    the updates of twenty, and the curve would show that.
    """
    if not any(setting.startswith("steps=") for setting in arguments.set) and not steps_of(arguments.config):
        raise InputError("a few-shot curve wants one number of updates, chosen on other queries; give --set steps=…")
    sizes = numbers(arguments.sizes, "sizes")
    (draws,) = numbers(arguments.draws, "draws")
    test = dict.fromkeys(read_ids(arguments.test_queries))
    evaluated = judged_of(arguments, test, arguments.test_queries)
    judged = read_qrels(arguments.qrels)
    train = read_ids(arguments.train_queries) if arguments.train_queries else [qid for qid in judged if qid not in test]
    if both := [qid for qid in train if qid in test]:
        raise InputError(f"query {both[0]} is in --train_queries and in --test_queries; a query is one or the other")
    texts = read_queries(arguments.queries)
    train = [qid for qid in train if qid in judged and qid in texts]
    train = apart(train, test, judged, arguments.disjoint)
    pool = os.path.join(arguments.output, "train.txt")
    listed(pool, train)
    drawn = [f"--qrels={arguments.qrels}", f"--sizes={arguments.sizes}", f"--draws={draws}", f"--run={arguments.run}"]
    drawn.append(f"--docs={arguments.docs}")
    drawn.append(f"--queries={pool}")
    commands = [Command("subsets", "harp_jax.experiments.subsets", [*drawn, "--output={out}"])]
    systems: dict[str, list[str]] = {}
    for size in sizes:
        made = systems.setdefault(f"{arguments.name}_{size}", [])
        for draw in range(draws):
            for seed in arguments.seeds:
                name = f"n{size}_d{draw}_s{seed}"
                extra = ["--config.train_queries={subsets}/" + f"draw-{draw:02d}/{size}.txt"]
                commands += training(name, arguments, seed, extra, [f"--only={arguments.test_queries}"])
                made.append(f"run_{name}")
    return [*commands, evaluation(arguments, systems, evaluated, len(arguments.seeds))]


def apart(train: list[str], test: Collection[str], judged: Qrels, disjoint: bool) -> list[str]:
    """The training queries; with `disjoint` without those that share a relevant document with a test query.

    A document seen as relevant in training is known to be asked about: on a few much-asked documents, that alone ranks.
    """
    tested = {docid for qid in test for docid, level in judged.get(qid, {}).items() if level > 0}
    sharing = {qid for qid in train if any(level > 0 and docid in tested for docid, level in judged[qid].items())}
    if disjoint:
        return [qid for qid in train if qid not in sharing]
    if sharing:
        print(
            f"note: {len(sharing)} of {len(train)} training queries share a relevant document with a test query, {min(sharing)} "
            "for example: a model may know which documents are asked about; --disjoint leaves these queries out"
        )
    return train


def steps_of(config: str) -> int:
    """`steps` of a training config; 0 where epochs count."""
    get_config = runpy.run_path(config.partition(":")[0]).get("get_config") if os.path.isfile(config) else None
    if get_config is None:
        raise InputError(f"no config at {config}; for example --config=configs/finetune.py")
    return int(get_config().get("steps", 0))


def listed(path: str, queries: list[str]) -> None:
    with replacing(path) as file:
        file.writelines(f"{qid}\n" for qid in queries)


PROTOCOLS = {"cross_validate": cross_validation, "few_shot": few_shot}


def main(arguments: argparse.Namespace) -> None:
    if not arguments.seeds or not all(seed.isdecimal() for seed in arguments.seeds.split(",")):
        raise InputError(f"--seeds={arguments.seeds}: write numbers separated by commas, as in 0,1,2")
    arguments.seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for setting in (*arguments.set, *arguments.rerank):
        if "=" not in setting:
            raise InputError(f"{setting!r}: write FIELD=VALUE")
    steps = resolve(PROTOCOLS[arguments.protocol](arguments), arguments.output)
    if arguments.dry_run:
        for step in steps:
            print(f"{'done' if step.done else 'to do'}  {step.command.name}: {shown(step)}")
        return
    execute(steps, arguments.output, arguments.jobs)


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.experiments.protocols", description="Experiments of many trainings."
    )
    kinds = parser.add_subparsers(dest="protocol", required=True)
    for name in PROTOCOLS:
        one = kinds.add_parser(name)
        one.add_argument("--config", required=True, help="fine-tuning config")
        one.add_argument(
            "--set", action="append", default=[], metavar="FIELD=VALUE", help="a config field, several times"
        )
        one.add_argument("--rerank", action="append", default=[], metavar="OPTION=VALUE", help="an option of rerank")
        one.add_argument("--docs", required=True)
        one.add_argument("--queries", required=True, help="training and test queries")
        one.add_argument("--qrels", required=True, help="judgments of both")
        one.add_argument("--run", required=True, help="candidates of both: negatives, and what is re-ranked")
        one.add_argument("--seeds", default="0", help="seeds of a training, separated by commas (0)")
        one.add_argument("--name", default="fine_tuned", help="of the system, in the table")
        one.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
        one.add_argument("--output", required=True, help="directory that receives everything")
        one.add_argument("--jobs", type=int, default=1, help="commands at a time, each on its share of the cores (1)")
        one.add_argument("--dry_run", action="store_true", help="print the commands, run nothing")
        if name == "cross_validate":
            one.add_argument("--folds", required=True, help="qid<TAB>fold")
        else:
            one.add_argument(
                "--train_queries", default="", help="a file whose lines begin with the ids to draw from (all others)"
            )
            one.add_argument("--test_queries", required=True, help="a file whose lines begin with the ids to report")
            one.add_argument(
                "--disjoint",
                action="store_true",
                help="leave out training queries that share a relevant document with a test query",
            )
            one.add_argument("--sizes", default="5,10,15,20", help="training queries (5,10,15,20)")
            one.add_argument("--draws", default="10", help="of each size, nested (10)")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
