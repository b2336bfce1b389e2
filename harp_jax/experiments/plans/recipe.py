"""What links alone teach: a re-ranker after each recipe of pre-training, without a labelled query, on several query sets.

harp plan recipe --output=recipe --set docs=collection.jsonl --set fields=title,body --set queries=one.tsv,two.tsv \\
    --set qrels=one.qrels,two.qrels --set candidates=ONE=one.trec,TWO=two.trec --set init=start --set scale=small \\
    --set source_config=data/linked_jsonl:recommended --set encoder=idf --set rows=links,titles,k7 --set seeds=0,1,2

Every row starts from the same encoder (`init`) and gets the same updates and real tokens; rows differ in their pairs, generated
once for all rows that share them, or in their training. The model's own score head ranks the candidates of each query set. Each
table has the candidates, chance, the start's cosine, the rows, and the first row with its queries blanked. How the recipe
`recommended` was chosen: docs/experiments/recipe.md.

Hardware: any; `--dry_run` prints the cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    PRETRAINING,
    Collection,
    Pretraining,
    blanked,
    check_known,
    comparison,
    identifier,
    labelled,
    output_of,
)


class Row(NamedTuple):
    """A row's tasks, and further fields of its generation job and training (added to configs/baselines/harp.py:recommended).

    teacher: where the pairs' scores come from: VECTORS of the plan's teacher, or a row, averaged over its rankers of all seeds
    teach: further options of `harp teach`
    whole: starts from all layers of the plan's teacher, not from its `init`
    """

    tasks: tuple[str, ...] = ("adp",)
    pairs: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    teacher: str = ""
    teach: tuple[str, ...] = ()
    whole: bool = False


VECTORS = "vectors"
FOUR = ("rqp", "qdm", "rdp", "acm")
SEVEN = ("hard_negatives=7", "negative_search=words")
ROWS: dict[str, Row] = {
    "links": Row(),
    # Controls that need no link.
    "titles": Row(("title",)),
    "titles_of_linked": Row(("title",), ("text_pages=linked",)),
    "leads": Row(("lead",)),
    "leads_of_linked": Row(("lead",), ("text_pages=linked",)),
    "links_titles": Row(("adp", "title")),
    # The loss, the kind of negatives, and their number.
    "logistic": Row(training=("pair_loss=logistic",)),
    "words": Row(pairs=("negative_search=words",)),
    **{f"k{k}": Row(pairs=SEVEN, training=(f"negatives={k}", "pair_loss=lce")) for k in (1, 3, 7)},
    **{f"k{k}_hinge": Row(pairs=SEVEN, training=(f"negatives={k}",)) for k in (1, 3, 7)},
    # A second round: seven negatives by whole words; the first round's rankers drop those that they rank above the positive.
    "second": Row(("adp",), SEVEN, ("negatives=3", "pair_loss=lce"), "taught", ("--drop_above", "--hardest=3")),
    # The rankers of all seeds distilled into one.
    "distilled": Row(training=("negatives=3", "pair_loss=lce_kl"), teacher="taught"),
    # The order of an encoder's vectors as a teacher, with the links and alone.
    "taught": Row(training=("negatives=3", "pair_loss=lce_kl"), teacher=VECTORS),
    "taught_whole": Row(
        training=("negatives=3", "pair_loss=lce_kl", "learning_rate=1e-4"), teacher=VECTORS, whole=True
    ),
    "taught_by_whole": Row(training=("negatives=3", "pair_loss=lce_kl"), teacher="taught_whole"),
    "taught_alone": Row(training=("negatives=3", "pair_loss=kl"), teacher=VECTORS),
    # The same without links.
    "taught_titles": Row(("title",), ("text_pages=linked",), ("negatives=3", "pair_loss=kl"), teacher=VECTORS),
    "taught_leads": Row(("lead",), ("text_pages=linked",), ("negatives=3", "pair_loss=kl"), teacher=VECTORS),
    # The texts of a query and a document.
    "sampled": Row(pairs=("adp_queries=('sampled',)",)),
    "anchors": Row(pairs=("adp_queries=('anchor',)",)),
    "anchors_windows": Row(pairs=("adp_queries=('anchor','window')",)),
    "mixed": Row(pairs=("adp_queries=('anchor','short','window','sentence')",)),
    "document_titles": Row(pairs=("document_title=True",)),
    # The papers' tasks, and more than one.
    "four": Row(FOUR),
    "four_mlm": Row(FOUR, training=("mlm_weight=1.0",)),
    **{task: Row((task,)) for task in (*FOUR, "ict", "wlp", "prop")},
    "adp_qdm": Row(("adp", "qdm")),
    # The optimizer.
    "slower": Row(training=("learning_rate=1e-4",)),
    "dropout": Row(training=("model.dropout=0.1",)),
}
UNTAUGHT = tuple(name for name, row in ROWS.items() if not row.teacher)


def get_plan(
    pretraining: Pretraining = PRETRAINING,
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
) -> list[Command]:
    """Options:

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
    only = only or ("",) * len(queries)
    if not rows or not pretraining.init or not len(queries) == len(qrels) == len(candidates) == len(only):
        raise InputError("give rows, their encoder (init), and the same number of queries, qrels, candidates and only")
    if not teacher and any(ROWS[row].teacher for row in rows):
        raise InputError("give the encoder that teaches (teacher), or leave out the rows taught…, second and distilled")
    if pretraining.pairs and (made := [row for row in rows if ROWS[row].pairs or ROWS[row].teacher]):
        raise InputError(f"the rows {', '.join(made)} have pairs of their own: leave out pairs, or these rows")
    commands, models = trained(pretraining, rows, seeds, teacher)
    for asked, judged, (name, run), chosen in zip(queries, qrels, labelled(candidates).items(), only):
        some = [f"--only={chosen}"] if chosen else []
        ranking = [*Collection(docs, asked, judged, fields).options, f"--run={run}", *some]
        ranking += [*(f"--{option}" for option in rerank), "--output={out}"]
        commands += ranked(identifier(name), ranking, pretraining.init, models)
        systems = {name: [run], "cosine": output_of(f"cosine_{identifier(name)}")}
        systems |= {row: output_of(*(f"{model}_{identifier(name)}" for model in models[row])) for row in rows}
        blank = f"blank_{identifier(name)}"
        commands.append(
            comparison(
                f"table_{identifier(name)}",
                {**systems, "blank": output_of(blank)},
                qrels=judged,
                measures=measures,
                baseline=name,
                chance="cosine",  # the candidates that are re-ranked; the run may have more
                blank={rows[0]: "blank"},
                options=[f"--queries={chosen or asked}", f"--confirm={measures.split()[0]}"],
            )
        )
    return commands


def trained(
    pretraining: Pretraining, rows: Sequence[str], seeds: Sequence[int], teacher: str
) -> tuple[list[Command], dict[str, list[str]]]:
    """The steps that generate pairs (unless they are given) and train, ROW_sSEED; and row → their names."""
    commands: list[Command] = []
    made: dict[Row, str] = {}
    models: dict[str, list[str]] = {}
    teachers = [] if pretraining.pairs else [ROWS[name].teacher for name in rows if ROWS[name].teacher in ROWS]
    for name in dict.fromkeys([*teachers, *rows]):
        row, data = ROWS[name], pretraining
        if not pretraining.pairs:
            plain, taught = Row(row.tasks, row.pairs), row._replace(training=(), whole=False)
            if plain not in made:
                made[plain] = f"pairs_{name}"
                (step,) = replace(data, generation=(*data.generation, *row.pairs)).generated(row.tasks)
                commands.append(replace(step, name=made[plain]))
            if taught not in made:
                vectors = row.teacher == VECTORS
                scoring = ["--cosine", "--model", teacher] if vectors else ["--model", *output_of(*models[row.teacher])]
                made[taught] = f"taught_pairs_{name}"
                arguments = ["{" + made[plain] + "}", *scoring, *row.teach, "--output={out}"]
                commands.append(Command(made[taught], "teach", arguments))
            data = replace(data, pairs="{" + made[taught] + "}")
        for seed in seeds:
            settings = [f"tasks={row.tasks!r}", *([f"init={teacher}"] if row.whole else []), *row.training]
            commands.append(data.trained(f"{name}_s{seed}", "recommended", seed, settings))
            models.setdefault(name, []).append(commands[-1].name)
    return commands, {name: models[name] for name in rows}


def ranked(name: str, ranking: list[str], start: str, models: Mapping[str, Sequence[str]]) -> list[Command]:
    """The rankings of one query set: cosine_NAME by the start's embeddings, ROW_sSEED_NAME, blank_NAME by the first of these."""
    steps = [Command(f"cosine_{name}", "rerank", [f"--model={start}", "--cosine", *ranking], suffix=".trec")]
    for model in (each for row in models.values() for each in row):
        steps.append(Command(f"{model}_{name}", "rerank", ["--model={" + model + "}", *ranking], suffix=".trec"))
    return [*steps, blanked(steps[1], f"blank_{name}")]
