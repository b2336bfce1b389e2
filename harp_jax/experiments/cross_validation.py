"""k-fold cross-validation: each fold is re-ranked by a model that was trained on the other folds.

`cross_validation` is the one builder, for all plans; `cross_validation_plan` is the experiment of `harp cross-validate`.
"""

import os
from collections.abc import Mapping, Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.corpus.folds import read_folds
from harp_jax.corpus.trec import Qrels, read_qrels, read_queries
from harp_jax.experiments.plan import Command
from harp_jax.experiments.ranking_steps import Collection, comparison, output_of, reranked_again, trained_ranker

FIRST_STAGE = "first_stage"  # the table's row of the run that is re-ranked
BLANK = {"blank": ["blank_query"]}  # the further re-ranking of documents without their query


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
    variants: Mapping[str, Sequence[str]] | None = None,
    only: Sequence[str] = (),
    export: bool = True,
) -> list[Command]:
    """For each fold a re-ranker trained on the others; the step joined_NAME joins the folds' runs.

    `folds` is a file of "qid<TAB>fold", `fold_names` its folds. `only` restricts the tested folds (each model is trained on all
    other folds nevertheless). `variants` are further re-rankings by the same models with more options, such as
    {"blank": ["blank_query"]}; VARIANT_NAME joins their runs. The rest as in `trained_ranker`; steps of fold i are
    train_NAME_fi, model_NAME_fi, run_NAME_fi and VARIANT_NAME_fi.
    """
    commands: list[Command] = []
    runs: dict[str, list[str]] = {"joined": [], **{variant: [] for variant in variants or {}}}
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
        for variant, options in (variants or {}).items():
            commands.append(reranked_again(ranking, f"{variant}_{name}_f{number}", options))
            runs[variant] += output_of(commands[-1].name)
    for kind, made in runs.items():
        joining = ["--method=join", *made, "--output={out}"]
        commands.append(Command(f"{kind}_{name}", "fuse", joining, suffix=".trec"))
    return commands


def cross_validation_plan(
    collection: Collection,
    *,
    folds: str,
    config: str,
    candidates: str,
    output: str,
    seeds: Sequence[int] = (0,),
    settings: Sequence[str] = (),
    rerank: Sequence[str] = (),
    name: str = "fine_tuned",
    blank: bool = False,
    measures: str,
) -> tuple[list[Command], list[str]]:
    """(steps, notes for the reader) of a cross-validation for each seed, and one table against the run that is re-ranked.

    The table has a row of random orders, and with `blank` one of the same models' rankings of documents without their query.
    Writes the list of evaluated queries to `output`. Raises InputError for fewer than two folds, and for queries without text.
    """
    fold_of = read_folds(folds)
    fold_names = sorted(set(fold_of.values()))
    if len(fold_names) < 2:
        raise InputError(f"{folds} has one fold only; cross-validation needs at least two")
    evaluated, notes = evaluated_queries(collection, list(fold_of), where=folds, output=output)
    notes += shared_documents(fold_of, read_qrels(collection.qrels))
    commands: list[Command] = []
    for seed in seeds:
        commands += cross_validation(
            f"s{seed}",
            collection,
            folds=folds,
            fold_names=fold_names,
            config=config,
            candidates=candidates,
            settings=[f"seed={seed}", *settings],
            rerank=rerank,
            variants=BLANK if blank else None,
        )
    systems = {FIRST_STAGE: [candidates], name: output_of(*(f"joined_s{seed}" for seed in seeds))}
    if blank:
        systems[f"{name}_blank"] = output_of(*(f"blank_s{seed}" for seed in seeds))
    table = comparison(
        "evaluate",
        systems,
        qrels=collection.qrels,
        measures=measures,
        baseline=FIRST_STAGE,
        chance=name,
        blank={name: f"{name}_blank"} if blank else None,
        options=[f"--queries={evaluated}"],
    )
    return [*commands, table], notes


def evaluated_queries(
    collection: Collection, wanted: Sequence[str], *, where: str, output: str
) -> tuple[str, list[str]]:
    """(a new file in `output` that lists the wanted queries that have judgments, notes about those that have none).

    Raises InputError for queries without text, which re-ranking would only report after the first training.
    """
    texts, judged = read_queries(collection.queries), read_qrels(collection.qrels)
    textless = [qid for qid in wanted if qid not in texts]
    if textless:
        raise InputError(f"{where}: {len(textless)} queries have no text in {collection.queries}, {textless[0]} first")
    unjudged = [qid for qid in wanted if qid not in judged]
    if len(unjudged) == len(wanted):
        raise InputError(f"{where}: none of its queries has judgments in {collection.qrels}")
    path = os.path.join(output, "evaluated.txt")
    write_ids(path, [qid for qid in wanted if qid in judged])
    if not unjudged:
        return path, []
    return path, [f"{len(unjudged)} queries of {where} have no judgments and are not evaluated, {unjudged[0]} first"]


def shared_documents(fold_of: Mapping[str, str], judged: Qrels) -> list[str]:
    """A note on relevant documents that several folds have in common, if there are any."""
    found: dict[str, set[str]] = {}
    for qid, fold in fold_of.items():
        for docid, level in judged.get(qid, {}).items():
            if level > 0:
                found.setdefault(docid, set()).add(fold)
    shared = sum(len(names) > 1 for names in found.values())
    if not shared:
        return []
    return [
        f"{shared} of {len(found)} relevant documents are relevant to queries of several folds: a model may learn which "
        "documents are relevant to any query; `harp queries folds --qrels=…` keeps such queries together"
    ]


def write_ids(path: str, queries: Sequence[str]) -> None:
    """Writes query ids, one a line."""
    with replacing(path) as file:
        file.writelines(f"{qid}\n" for qid in queries)
