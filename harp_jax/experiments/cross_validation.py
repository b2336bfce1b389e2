"""One fine-tuning config trained several times: k-fold cross-validation, where each fold is re-ranked by a model trained on the
others, and few-shot curves: several draws of each number of training queries, all tested on the same queries.
"""

import os
import runpy
from collections.abc import Mapping, Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.config import config_file
from harp_jax.corpus.trec import Qrels, read_folds, read_ids, read_qrels, read_queries
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BLANK,
    FIRST_STAGE,
    Collection,
    comparison,
    cross_validation,
    output_of,
    reranked_again,
    trained_ranker,
)


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


def few_shot_plan(
    collection: Collection,
    *,
    test_queries: str,
    config: str,
    candidates: str,
    output: str,
    measures: str,
    train_queries: str = "",
    disjoint: bool = False,
    sizes: Sequence[int] = (5, 10, 15, 20),
    draws: int = 10,
    seeds: Sequence[int] = (0,),
    settings: Sequence[str] = (),
    rerank: Sequence[str] = (),
    name: str = "fine_tuned",
    blank: bool = False,
) -> tuple[list[Command], list[str]]:
    """(steps, notes for the reader): for each size, draw and seed a re-ranker trained on so many queries; one table.

    `test_queries` and `train_queries` (default: all others) are files whose lines begin with query ids. All models are
    trained for the same number of steps, from the config or `settings`: with epochs, five queries would get a quarter of the
    updates of twenty, and the curve would show that. `blank` as in `cross_validation_plan`. Writes the lists of training and
    evaluated queries to `output`. Raises InputError without a number of steps, and for queries without text or on both sides.
    """
    if not any(setting.startswith("steps=") for setting in settings) and not steps_of(config):
        raise InputError("a few-shot curve needs one number of updates, chosen on other queries; give --set steps=…")
    test = dict.fromkeys(read_ids(test_queries))
    evaluated, notes = evaluated_queries(collection, list(test), where=test_queries, output=output)
    judged, texts = read_qrels(collection.qrels), read_queries(collection.queries)
    train = read_ids(train_queries) if train_queries else [qid for qid in judged if qid not in test]
    if both := [qid for qid in train if qid in test]:
        raise InputError(f"query {both[0]} is in --train_queries and in --test_queries; remove it from one of them")
    train = [qid for qid in train if qid in judged and qid in texts]
    sharing = sharing_documents(train, list(test), judged)
    if disjoint:
        train = [qid for qid in train if qid not in sharing]
    elif sharing:
        notes.append(
            f"{len(sharing)} of {len(train)} training queries share a relevant document with a test query, {min(sharing)} "
            "for example: a model may learn which documents are relevant to any query; --disjoint leaves these queries out"
        )
    pool = os.path.join(output, "train.txt")
    write_ids(pool, train)
    drawn = [f"--qrels={collection.qrels}", f"--sizes={','.join(map(str, sizes))}", f"--draws={draws}"]
    drawn += [f"--run={candidates}", f"--docs={collection.docs}", f"--queries={pool}", "--output={out}"]
    commands = [Command("subsets", "queries", ["subsets", *drawn])]
    systems = {FIRST_STAGE: [candidates]}
    blanks = {f"{name}_{size}": f"{name}_{size}_blank" for size in sizes} if blank else {}
    for size in sizes:
        row = systems.setdefault(f"{name}_{size}", [])
        for draw in range(draws):
            for seed in seeds:
                commands += trained_ranker(
                    f"n{size}_d{draw}_s{seed}",
                    collection,
                    config=config,
                    candidates=candidates,
                    settings=["train_queries={subsets}/" + f"draw-{draw:02d}/{size}.txt", f"seed={seed}", *settings],
                    rerank=[f"only={test_queries}", *rerank],
                )
                row += output_of(commands[-1].name)
                if blank:
                    commands.append(reranked_again(commands[-1], f"blank_n{size}_d{draw}_s{seed}", BLANK["blank"]))
                    systems.setdefault(blanks[f"{name}_{size}"], []).extend(output_of(commands[-1].name))
    options = [f"--queries={evaluated}", *([f"--runs_per_draw={len(seeds)}"] if len(seeds) > 1 else [])]
    table = comparison(
        "evaluate",
        systems,
        qrels=collection.qrels,
        measures=measures,
        baseline=FIRST_STAGE,
        chance=f"{name}_{sizes[0]}",
        blank=blanks,
        options=options,
    )
    return [*commands, table], notes


def sharing_documents(train: Sequence[str], test: Sequence[str], judged: Qrels) -> set[str]:
    """The training queries that share a relevant document with a test query.

    A model learns from them which documents are relevant to any query, which can rank well without matching the query.
    """
    tested = {docid for qid in test for docid, level in judged.get(qid, {}).items() if level > 0}
    return {qid for qid in train if any(level > 0 and docid in tested for docid, level in judged[qid].items())}


def steps_of(config: str) -> int:
    """`steps` of a training config; 0 if it counts epochs. InputError where there is no such config."""
    path = config_file(config).partition(":")[0]
    get_config = runpy.run_path(path).get("get_config") if os.path.isfile(path) else None
    if get_config is None:
        raise InputError(f"no config at {config}; for example --config=finetune")
    return int(get_config().get("steps", 0))
