"""What links alone teach: a re-ranker after each recipe of pre-training, without a labelled query, on several query sets.

harp plan recipe --output=recipe --set docs=collection.jsonl --set fields=title,body --set queries=one.tsv,two.tsv \\
    --set qrels=one.qrels,two.qrels --set candidates=ONE=one.trec,TWO=two.trec --set init=start --set scale=small \\
    --set encoder=idf --set rows=links,titles,k7 --set seeds=0,1,2

Every row starts from the same encoder (`init`) and gets the same updates and real tokens; rows differ in their pairs, generated
once for all rows that share them, or in their training. The model's own score head ranks the candidates of each query set. Each
table has the candidates, chance, the start's cosine, the rows, and the first row with its queries blanked. How the recipe
`recommended` was chosen: docs/lab/negatives.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import FIELDS
from harp_jax.evaluation.report import Evaluation
from harp_jax.experiments.benchmark import reranking, show
from harp_jax.experiments.experiment import check_known, labelled, need_files
from harp_jax.experiments.pretraining import HARP_TASKS, RECOMMENDED, Pretraining
from harp_jax.ranking.rerank import rerank_files


class Row(NamedTuple):
    """A row's tasks, and further fields of its generation job and training (added to configs/baselines/harp.py:recommended).

    teacher: where the pairs' scores come from: VECTORS of the option `teacher`, or a row, averaged over its rankers of all seeds
    teach: further `TeachOptions`
    whole: starts from all layers of the option `teacher`, not from `init`
    """

    tasks: tuple[str, ...] = ("adp",)
    pairs: Mapping[str, Any] = {}
    teacher: str = ""
    teach: Mapping[str, Any] = {}
    training: Mapping[str, Any] = {}
    whole: bool = False


VECTORS = "vectors"
LCE = {"negatives": 3, "pair_loss": "lce"}
LCE_KL = LCE | {"pair_loss": "lce_kl"}
SEVEN = {"hard_negatives": 7, "negative_search": "words"}
ROWS: dict[str, Row] = {
    "links": Row(),
    # Controls that need no link.
    "titles": Row(("title",)),
    "leads": Row(("lead",)),
    # The kind of negatives, their number, and the loss.
    **{f"k{k}": Row(pairs=SEVEN, training={"negatives": k, "pair_loss": "lce"}) for k in (1, 3, 7)},
    **{f"k{k}_hinge": Row(pairs=SEVEN, training={"negatives": k}) for k in (1, 3, 7)},
    # A second round: seven negatives by whole words; the first round's rankers drop those that they rank above the positive.
    "second": Row(("adp",), SEVEN, "taught", {"drop_above": True, "hardest": 3}, LCE),
    # The order of an encoder's vectors as a teacher, with the links and alone; the rankers of all seeds distilled into one.
    "taught": Row(training=LCE_KL, teacher=VECTORS),
    "taught_whole": Row(training=LCE_KL | {"learning_rate": 1e-4}, teacher=VECTORS, whole=True),
    "taught_alone": Row(training={"negatives": 3, "pair_loss": "kl"}, teacher=VECTORS),
    "distilled": Row(training=LCE_KL, teacher="taught"),
    # The texts of a query and a document.
    "mixed": Row(pairs={"adp_queries": ("anchor", "short", "window", "sentence")}),
    "document_titles": Row(pairs={"document_title": True}),
    # The papers' tasks.
    "four": Row(HARP_TASKS),
    **{task: Row((task,)) for task in (*HARP_TASKS, "ict", "wlp", "prop")},
}
UNTAUGHT = tuple(name for name, row in ROWS.items() if not row.teacher)
RECIPE = Pretraining(source_config="data/linked_jsonl:recommended", config=f"baselines/harp:{RECOMMENDED}")


def recipe(
    output: str,
    pretraining: Pretraining = RECIPE,
    docs: str = "docs.tsv",
    fields: tuple[str, ...] = ("title", "url", "body"),
    queries: tuple[str, ...] = ("queries.tsv",),
    qrels: tuple[str, ...] = ("qrels.txt",),
    candidates: tuple[str, ...] = ("BM25=bm25.trec",),
    only: tuple[str, ...] = (),
    measures: str = "RR@10",
    rerank: tuple[str, ...] = (),
    rows: tuple[str, ...] = UNTAUGHT,
    seeds: tuple[int, ...] = (0,),
    teacher: str = "",
) -> None:
    """What links alone teach: a re-ranker after each recipe of pre-training, without a labelled query.

    docs: documents
    fields: document fields to read
    queries: one file per query set
    qrels: judgments, one file per query set
    candidates: run to re-rank for each query set, as NAME=RUN or RUN
    only: for each query set, a file of the query ids to rank (empty: all)
    measures: measures in the tables; differences in the first one are tested
    rerank: options for every re-ranking, as in max_length=80
    rows: rows of the tables; the first one also ranks blank queries
    seeds: random seeds of pre-training
    teacher: encoder (Hugging Face directory) whose vectors score the pairs of rows with a teacher; `taught_whole` starts from it
    """
    check_known("rows", rows, tuple(ROWS))
    check_known("fields", fields, FIELDS)
    only = only or ("",) * len(queries)
    start, sets = pretraining.init, labelled(candidates)
    if not rows or not start or not len(queries) == len(qrels) == len(sets) == len(only):
        raise InputError("give rows, their encoder (init), and the same number of queries, qrels, candidates and only")
    if not teacher and any(ROWS[row].teacher for row in rows):
        raise InputError("give the encoder that teaches (teacher), or leave out the rows taught…, second and distilled")
    if pretraining.pairs and (made := [row for row in rows if ROWS[row].pairs or ROWS[row].teacher]):
        raise InputError(f"the rows {', '.join(made)} have pairs of their own: leave out pairs, or these rows")
    need_files(docs, *queries, *qrels, *sets.values(), *only, start, teacher, pretraining.pairs)
    options = reranking(fields, rerank)
    steps = Steps(output)
    models = trained(steps, pretraining, rows, seeds, teacher)

    for asked, judged, (name, run), chosen in zip(queries, qrels, sets.items(), only):
        folder = f"{output}/{name.lower()}"
        systems: dict[str, list[str]] = {name: [run]}
        rankings: list[tuple[str, str, str, dict[str, Any]]] = [("cosine", start, "cosine", {"cosine": True})]
        rankings += [(row, model, f"{row}_s{seed}", {}) for row in rows for seed, model in zip(seeds, models[row])]
        rankings.append(("blank", models[rows[0]][0], f"{rows[0]}_blank", {"blank_query": True}))
        for row, model, label, more in rankings:
            systems.setdefault(row, []).append(f"{folder}/{label}.trec")
            how = replace(options, only=chosen, **more)
            steps(f"Rank {name} with {label}", rerank_files, model, docs, asked, run, systems[row][-1], how)
        table = Evaluation(
            judged, systems, queries=chosen or asked, measures=measures, baseline=name, confirm=measures.split()[0],
            chance="cosine",  # the candidates that are re-ranked; the run may have more
            blank={rows[0]: "blank"},
        )  # fmt: skip
        show(table, f"{output}/table_{name.lower()}", f"Recipes without labels, {name}")


def trained(
    steps: Steps, pretraining: Pretraining, rows: Sequence[str], seeds: Sequence[int], teacher: str
) -> dict[str, list[str]]:
    """Row → its rankers, ROW_sSEED. Pairs that several rows share are generated, and taught, once, for the first of these."""
    from data_pipeline.output.teacher import TeachOptions, teach

    teachers = [ROWS[name].teacher for name in rows if ROWS[name].teacher in ROWS]
    order = dict.fromkeys([*teachers, *rows])
    models: dict[str, list[str]] = {}
    for name in order:
        row = ROWS[name]
        generated, taught = (next(each for each in order if ROWS[each][:n] == row[:n]) for n in (2, 4))
        pairs = pretraining.generated(steps, row.tasks, row.pairs, generated)
        if row.teacher:
            by = (teacher,) if row.teacher == VECTORS else tuple(models[row.teacher])
            options = TeachOptions(pairs, by, row.teacher == VECTORS, **row.teach)
            pairs = f"{steps.output}/taught_pairs_{taught}"
            steps(f"Teach the pairs of {taught}", teach, options, pairs)
        changes = {"tasks": row.tasks, **row.training} | ({"init": teacher} if row.whole else {})
        models[name] = [pretraining.trained(steps, name, pairs, seed, changes) for seed in seeds]
    return models
