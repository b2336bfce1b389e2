"""Hyperlinks make a ranker: the pipeline end to end on an invented wiki, eight minutes on two cores. What `make demo` runs.

harp plan demo --output=demo --set encoder=all-MiniLM-L6-v2

It starts from the first three layers of MiniLM, an encoder that knows words but was not trained to rank with them. Links alone
make it a ranker, with the tasks ADP (ours) and QDM; then a re-ranker is fine-tuned on 66 questions from three starts: random
weights, MLM on the texts of the same pairs, and links. MLM and links read the same batches for the same number of steps.

It shows that links teach a model to rank and save labels, not how much they gain on real text: the wiki is designed so that
links describe their pages in other words, which is the hypothesis that HARP rests on. With `--set informative=False` its links
say nothing, and must not win.
"""

import os
from typing import Any

from harp_jax.base.steps import Steps
from harp_jax.config import load_config
from harp_jax.evaluation.report import Evaluation, Page, report_files
from harp_jax.evaluation.results import Table
from harp_jax.experiments.experiment import need_files
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.training.recorded import first_layers, train

LAYERS, FIELDS, MEASURE = 3, ("body",), "RR@10"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OPENING = """\
An invented wiki of {pages} pages, whose links describe pages in other words than the pages themselves.
1. Its links become training pairs: the words around a link, the page it leads to, and another page.
2. A small encoder learns from these pairs alone to rank pages for a query; no question, no label.
{labels}About {minutes} minutes on two cores; if interrupted, run the same command again."""
LABELS = "3. Then {questions} labelled questions fine-tune it, and the same encoder without the links.\n"
ALONE, BLANK, AFTER = "links, no labels", "links, no labels, query blanked", "fine-tuned after links"
NEXT = """\
Next: harp look --model={model} --docs={wiki}/docs.tsv --queries={wiki}/test.queries.tsv
      harp site PAGES --output=x      the same for your own pages"""


def demo(
    output: str,
    encoder: str = os.path.join("~", ".cache", "harp_jax", "minilm"),
    pages: int = 400,
    seed: int = 0,
    steps: int = 120,
    informative: bool = True,
    fine_tune: bool = True,
) -> None:
    """Hyperlinks make a ranker: the pipeline end to end on an invented wiki, in eight minutes on two cores.

    encoder: folder of all-MiniLM-L6-v2
    pages: number of articles in the wiki
    seed: random seed of the wiki and of every training
    steps: pre-training steps
    informative: False is the control, whose links say nothing true about their pages
    fine_tune: False stops after the ranker without labels, in half the time
    """
    from data_pipeline.pipeline import generate
    from data_pipeline.sample import SampleWiki, write_sample_wiki

    encoder = os.path.expanduser(encoder)
    need_files(encoder)
    labels = LABELS.format(questions=max(3, pages // 6)) if fine_tune else ""
    print(OPENING.format(pages=pages, labels=labels, minutes=8 if fine_tune else 4), flush=True)
    run = Steps(output, 14 if fine_tune else 7)
    start, wiki, pairs, harp = (f"{output}/{name}" for name in ("start", "wiki", "pairs", "harp"))

    # The pairs of the wiki's links, and a ranker trained on them.
    run("Take three layers of the encoder", first_layers, encoder, LAYERS, start, MINILM_SHA256)
    run("Invent a wiki", write_sample_wiki, SampleWiki(pages, seed, informative), wiki)
    source = {"source.paths": (f"{wiki}/wiki.xml.bz2",), "tokenizer": start, "seed": seed}
    run("Make pairs of its links", generate, load_config("data/demo", source), pairs)
    pretraining = load_config("demo", {"init": start, "data": (pairs,), "seed": seed, "steps": steps})
    run("Train on links", train, pretraining, harp)

    # BM25's best 12 pages for each test question, ranked without labels.
    docs, qrels, test = f"{wiki}/docs.tsv", f"{wiki}/qrels.txt", f"{wiki}/test.queries.tsv"
    bm25 = f"{output}/bm25.trec"
    first_stage_files(Candidates(docs, FIELDS, k=12), queries=test, output=bm25)
    rankings = {"BM25": bm25}

    def ranked(row: str, name: str, title: str, model: str, **options: Any) -> None:
        rankings[row] = f"{output}/{name}.trec"
        run(title, rerank_files, model, docs, test, bm25, rankings[row], Reranking(fields=FIELDS, **options))

    ranked("the encoder's vectors, before pre-training", "cosine", "Rank by the encoder's vectors", start, cosine=True)
    ranked(ALONE, "harp", "Rank by what links taught", harp)
    ranked(BLANK, "harp_blank", "Rank without reading the question", harp, blank_query=True)

    # The same labels after three starts.
    curves, shown = {"links": harp}, ["BM25", ALONE]
    if fine_tune:
        curves["MLM"] = f"{output}/mlm"
        pretraining.update_from_flattened_dict({"pair_weight": 0.0, "mlm_weight": 1.0})
        run("Train with MLM on the same texts", train, pretraining, curves["MLM"])
        asked, candidates = f"{wiki}/train.queries.tsv", f"{output}/bm25_train.trec"
        first_stage_files(Candidates(docs, FIELDS, k=12), queries=asked, output=candidates)
        judged: dict[str, Any] = {"docs": docs, "queries": asked, "qrels": qrels, "candidates": candidates}
        judged |= {"fields": FIELDS, "seed": seed}
        for name, label, begin in (
            ("random", "from random weights", {"tokenizer": start}),
            ("mlm", "after MLM", {"init": curves["MLM"]}),
            ("harp", "after links", {"init": harp}),
        ):
            tuned, row = f"{output}/{name}_tuned", f"fine-tuned {label}"
            run(f"Fine-tune {label}", train, load_config("finetune_demo", judged | begin), tuned)
            ranked(row, f"{name}_tuned", f"Rank after fine-tuning {label}", tuned)
            shown.append(row)

    # The page has everything, the terminal what matters.
    evaluation = Evaluation(
        qrels, {row: [path] for row, path in rankings.items()}, queries=test, measures=f"{MEASURE} nDCG@10", baseline="BM25",
        confirm=MEASURE, chance="BM25", blank={ALONE: BLANK},
    )  # fmt: skip
    remark = "Invented text: it shows that links teach to rank and save labels, not how much they gain on real text."
    title = "harp_jax on an invented wiki"
    page = Page(title, remarks=(remark,), curves=curves, docs=docs, fields=FIELDS, query_texts=test)
    report_files(evaluation, page, f"{output}/report.html", text=f"{output}/table.txt")
    table = evaluation.table()
    print(f"\n{short(table, ['chance', *shown])}\n{finding(table)}")
    print(f"Open {output}/report.html. " + NEXT.format(model=tuned if fine_tune else harp, wiki=wiki))


def finding(table: Table) -> str:
    """What the table shows, in one sentence."""
    means = {row: mean[MEASURE] for row, mean in table.mean.items()}
    (alone,) = (c for c in table.comparisons if c.run == ALONE)
    said = f"Links alone {'made' if alone.interval[0] > 0 else 'did not make'} the encoder a better ranker than BM25"
    if AFTER in means and means[AFTER] == max(means.values()):
        said += ", and the same labels are worth more after links than after any other start"
    return f"{said}."


def short(table: Table, rows: list[str]) -> str:
    """The rows with the measure, and the difference to the baseline with its interval."""
    width = max(map(len, rows))
    changes = {c.run: c for c in table.comparisons}
    lines = [f"{'':{width}}  {MEASURE}   to {table.baseline}, 95 % interval of {table.queries} questions"]
    for row in rows:
        c = changes.get(row)
        change = f"{c.difference:+.3f} [{c.interval[0]:+.3f}, {c.interval[1]:+.3f}]" if c else ""
        lines.append(f"{row:{width}}  {table.mean[row][MEASURE]:.3f}   {change}".rstrip())
    return "\n".join(lines)
