"""Few-shot curves: re-rankers trained on a few queries, several draws of each number, all tested on the same queries."""

import os
import runpy
from collections.abc import Sequence

from harp_jax.base.errors import InputError
from harp_jax.config import config_file
from harp_jax.corpus.trec import Qrels, read_ids, read_qrels, read_queries
from harp_jax.experiments.cross_validation import BLANK, FIRST_STAGE, evaluated_queries, write_ids
from harp_jax.experiments.plan import Command
from harp_jax.experiments.ranking_steps import Collection, comparison, output_of, reranked_again, trained_ranker


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
