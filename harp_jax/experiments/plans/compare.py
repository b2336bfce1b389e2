"""BM25 and re-rankers on any judged collection, with intervals: the plan behind `harp compare`.

harp compare scifact --model=ranker --k=100 --tune --fuse --output=out

Rows: BM25, each model's re-ranking of BM25's candidates, with `fuse` their weighted sum, the best order of the candidates, and a
random one. What is fitted to judgments (with `tune` BM25's parameters, the weights of sums) is fitted, for each fold of queries, on
the other folds.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, fitted_sum, tuned_first_stage

FIRST = "BM25"


def get_plan(
    docs: str = "",
    queries: str = "",
    qrels: str = "",
    models: tuple[str, ...] = (),
    candidates: str = "",
    fields: tuple[str, ...] = ("title", "url", "body"),
    k: int = 100,
    rerank: tuple[str, ...] = (),
    tune: bool = False,
    fuse: bool = False,
    folds: int = 5,
    grouped: bool = True,
    measures: str = "nDCG@10 RR@10 AP R@100",
    title: str = "",
) -> list[Command]:
    """Options:

    docs: documents
    queries: queries
    qrels: their judgments
    models: rankers, NAME=DIRECTORY
    candidates: run to re-rank; empty: BM25
    fields: document fields that are read
    k: candidates of each query
    rerank: options of re-ranking, as in max_length=256
    tune: BM25's k1 and b are fitted, not the default
    fuse: weighted sums of the first stage and each ranker
    folds: of the queries, for what is fitted
    grouped: False: folds do not keep queries together that share relevant documents
    measures: of the table; the first decides
    title: of the report
    """
    if not (docs and queries and qrels and models):
        raise InputError("compare needs docs, queries, qrels and models")
    named = [model.partition("=") for model in models]
    if wrong := [model for model, (name, equals, path) in zip(models, named) if not (name and equals and path)]:
        raise InputError(f"models={wrong[0]}: write NAME=DIRECTORY")
    judged = Collection(docs, "{judged}/queries.tsv", "{judged}/qrels.txt", fields)
    measure = measures.split()[0]
    chosen = ["--queries=" + queries, "--qrels=" + qrels, "--output={out}"]
    given = [f"--k={k}", *([f"--run={candidates}"] if candidates else [])]
    divided = [f"--queries={judged.queries}", f"--count={folds}", *([f"--qrels={judged.qrels}"] if grouped else [])]
    commands = [Command("judged", "queries", ["judged", *chosen])]
    if tune or fuse:
        commands.append(Command("folds", "queries", ["folds", *divided, "--output={out}"], suffix=".tsv"))
    if tune:
        commands += tuned_first_stage("bm25", judged, folds="{folds}", measure=measure, options=given)
    else:
        commands.append(Command("bm25", "first-stage", [*judged.options, *given, "--output={out}"], suffix=".trec"))
    rows = {FIRST: "bm25"}
    for number, (name, _, path) in enumerate(named, 1):
        ranking = [f"--model={path}", *judged.options, "--run={bm25}", f"--k={k}"]
        ranking += [f"--{option}" for option in rerank]
        commands.append(Command(f"ranker{number}", "rerank", [*ranking, "--output={out}"], suffix=".trec"))
        rows[name] = f"ranker{number}"
    if fuse:
        for number, (name, _, _) in enumerate(named, 1):
            runs = ["{bm25}", f"{{ranker{number}}}"]
            commands.append(fitted_sum(f"both{number}", runs, qrels=judged.qrels, folds="{folds}", measure=measure))
            rows[f"{FIRST} + {name}"] = f"both{number}"
    remarks = [f"Candidates: the best {k} of {'a given run, scored by BM25' if candidates else 'BM25'}."]
    if fitted := [what for what, done in (("k1 and b of BM25", tune), ("weights of sums", fuse)) if done]:
        shared = " that share no relevant document" if grouped else ""
        remarks.append(f"Fitted on the other {folds - 1} of {folds} folds of queries{shared}: {' and '.join(fitted)}.")
    if not tune:
        remarks.append("k1 and b of BM25 are the defaults; fitted to the collection (tune) BM25 may be much better.")
    page = [
        f"--qrels={judged.qrels}",
        f"--query_texts={judged.queries}",
        f"--docs={docs}",
        f"--fields={','.join(fields)}",
        f"--measures={measures}",
        *(f"--run={row}={{{step}}}" for row, step in rows.items()),
        f"--baseline={FIRST}",
        f"--chance={FIRST}",
        f"--oracle={FIRST}",
        f"--focus={named[0][0]}",
        *(f"--remark={remark}" for remark in remarks),
        f"--title={title or f'Re-ranking of {docs}'}",
        "--markdown={out}/report.md",
        "--text={out}/table.txt",
        "--output={out}/report.html",
    ]
    return [*commands, Command("report", "report", page)]
