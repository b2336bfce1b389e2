"""Real Wikipedia text and links, real questions: BERT-tiny from scratch through the whole road, MLM alone beside HARP.

python -m harp_jax.experiments.plan --plan=tests/real/wiki_plan.py --output=real

Attention weights come from MiniLM (HARP_MINILM, or the user's cache), the pairs from real hyperlinks, the questions from
WikiPassageQA: fine-tuned on four folds, tested on the fifth, re-ranking BM25's top 50.
"""

import os

from harp_jax.experiments.plan import Command
from tests.support.shared_data import MINILM, SHARED

WIKI = os.path.join(SHARED, "wiki")
DATA, PRETRAIN, FINETUNE = "configs/data/linked_jsonl.py", "configs/demo.py", "configs/finetune_demo.py"
STEPS = os.environ.get("HARP_REAL_STEPS", "150")
ROWS = ["--config.row_length=256", "--config.model.max_positions=256"]


def pretraining(name: str, pair_weight: float) -> Command:
    steps = [f"--config.steps={STEPS}", "--config.eval_every=75", "--config.batch_pairs=32", "--config.lanes=1"]
    start = [f"--config.tokenizer={MINILM}", "--config.data=('{pairs}',)", f"--config.pair_weight={pair_weight}"]
    return Command(
        name, "harp_jax.main", [f"--config={PRETRAIN}", "--workdir={out}", *start, *steps, *ROWS], [PRETRAIN]
    )


def ranking(name: str) -> list[Command]:
    tuned, exported, run = f"finetuned_{name}", f"model_{name}", f"run_{name}"
    data = [f"--config.docs={WIKI}/collection.jsonl.xz", f"--config.queries={WIKI}/wikipassageqa.queries.tsv"]
    data += [f"--config.qrels={WIKI}/wikipassageqa.qrels", f"--config.folds={WIKI}/wikipassageqa.folds.tsv"]
    data += ["--config.train_folds=('1','2','3','4')", "--config.candidates={bm25}", "--config.epochs=1"]
    test = [f"--docs={WIKI}/collection.jsonl.xz", f"--queries={WIKI}/wikipassageqa.queries.tsv", "--max_length=256"]
    test += ["--run={bm25_test}", "--output={out}", "--k=50"]
    start = "--config.init={" + name + "}"
    tune = [f"--config={FINETUNE}", "--workdir={out}", start, *data, *ROWS[:1]]
    return [
        Command(tuned, "harp_jax.main", tune, [FINETUNE]),
        Command(exported, "harp_jax.export", ["--workdir={" + tuned + "}", "--output={out}"]),
        Command(run, "rerank", ["--model={" + exported + "}", *test], suffix=".trec"),
    ]


def bm25(name: str, queries: str) -> Command:
    arguments = [f"--docs={WIKI}/collection.jsonl.xz", f"--queries={queries}", "--k=50", "--output={out}"]
    return Command(name, "first-stage", arguments, suffix=".trec")


def get_plan() -> list[Command]:
    source = f"--config.source.paths=('{WIKI}/collection.jsonl.xz','{WIKI}/linked_pages.jsonl.xz')"
    pairs = [f"--config={DATA}", source, f"--config.source.redirects=('{WIKI}/redirects.tsv',)", "--output={out}"]
    pairs += [f"--config.tokenizer={MINILM}", f"--config.encoder={MINILM}", "--config.tasks=('rqp','qdm','rdp','acm')"]
    pairs += ["--config.max_doc_tokens=160"]  # weighing passages by MiniLM is most of the job: a third less of it
    pairs += [f"--config.stopwords={SHARED}/vocab/inquery_stopwords.txt", "--config.validation_fraction=0.05"]
    test_queries = os.environ["HARP_TEST_QUERIES"]
    judged = [f"--qrels={WIKI}/wikipassageqa.qrels", f"--queries={test_queries}", "--measures=RR@10 nDCG@10"]
    runs = ["--run=BM25={bm25_test}", "--run=after MLM={run_mlm}", "--run=after HARP={run_harp}"]
    curves = ["--curves=MLM={mlm}", "--curves=HARP={harp}"]
    return [
        Command("pairs", "data_pipeline.main", pairs, [DATA]),
        pretraining("mlm", 0.0),
        pretraining("harp", 1.0),
        bm25("bm25", f"{WIKI}/wikipassageqa.queries.tsv"),
        bm25("bm25_test", test_queries),
        *ranking("mlm"),
        *ranking("harp"),
        Command("report", "harp_jax.experiments.report", [*judged, *runs, *curves, "--output={out}"], suffix=".html"),
    ]
