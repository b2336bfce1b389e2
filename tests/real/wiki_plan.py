"""Real Wikipedia text and links, real questions: BERT-tiny from scratch through the whole pipeline, HARP compared with MLM alone.

harp plan tests/real/wiki_plan.py --output=real --set test_queries=test.queries.tsv

Attention weights come from MiniLM (HARP_MINILM, or the user's cache), the pairs from real hyperlinks, the questions from
WikiPassageQA: fine-tuned on four folds, tested on the fifth, re-ranking BM25's top 50.
"""

import os

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, trained_ranker

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.normpath(os.path.join(ROOT, "..", "shared", "data"))
WIKI = os.path.join(SHARED, "wiki")
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
MINILM = os.environ.get("HARP_MINILM", os.path.join(CACHE, "harp_jax", "minilm"))
DATA, PRETRAIN, FINETUNE = "configs/data/linked_jsonl.py", "configs/bert_tiny.py", "configs/finetune_bert_tiny.py"
ROW_LENGTH = "row_length=256"
FILES = Collection(f"{WIKI}/collection.jsonl.xz", f"{WIKI}/wikipassageqa.queries.tsv", f"{WIKI}/wikipassageqa.qrels")


def generation() -> Command:
    source = f"--config.source.paths=('{WIKI}/collection.jsonl.xz','{WIKI}/linked_pages.jsonl.xz')"
    pairs = [f"--config={DATA}", source, f"--config.source.redirects=('{WIKI}/redirects.tsv',)", "--output={out}"]
    pairs += [f"--config.tokenizer={MINILM}", f"--config.encoder={MINILM}", "--config.tasks=('rqp','qdm','rdp','acm')"]
    pairs += ["--config.max_doc_tokens=160"]  # weighing passages by MiniLM is most of the job: a third less of it
    pairs += [f"--config.stopwords={SHARED}/vocab/inquery_stopwords.txt", "--config.validation_fraction=0.05"]
    return Command("pairs", "generate", pairs)


def pretraining(name: str, steps: int, pair_weight: float) -> Command:
    fields = [f"steps={steps}", "eval_every=75", "batch_pairs=32", "lanes=1", ROW_LENGTH, "model.max_positions=256"]
    fields += [f"tokenizer={MINILM}", "data=('{pairs}',)", f"pair_weight={pair_weight}"]
    arguments = [f"--config={PRETRAIN}", "--workdir={out}", *(f"--config.{field}" for field in fields)]
    return Command(name, "train", arguments)


def ranking(name: str) -> list[Command]:
    """Fine-tunes, exports and re-ranks with one pre-trained system."""
    folds = [f"folds={WIKI}/wikipassageqa.folds.tsv", "train_folds=('1','2','3','4')"]
    settings = ["init={" + name + "}", *folds, "epochs=1", ROW_LENGTH]
    return trained_ranker(
        name, FILES, config=FINETUNE, candidates="{bm25}", settings=settings, rerank=["max_length=256", "k=50"],
        test_candidates="{bm25_test}",
    )  # fmt: skip


def bm25(name: str, queries: str) -> Command:
    arguments = [f"--docs={FILES.docs}", f"--queries={queries}", "--k=50", "--output={out}"]
    return Command(name, "first-stage", arguments, suffix=".trec")


def get_plan(test_queries: str = "", steps: int = 150) -> list[Command]:
    """Options:

    test_queries: file with the queries of fold 0
    steps: of each pre-training
    """
    if not test_queries:
        raise InputError("--set test_queries=FILE: give a file with the queries of fold 0")
    judged = [f"--qrels={FILES.qrels}", f"--queries={test_queries}", "--measures=RR@10 nDCG@10"]
    runs = ["--run=BM25={bm25_test}", "--run=after MLM={run_mlm}", "--run=after HARP={run_harp}"]
    curves = ["--curves=MLM={mlm}", "--curves=HARP={harp}"]
    return [
        generation(),
        pretraining("mlm", steps, 0.0),
        pretraining("harp", steps, 1.0),
        bm25("bm25", FILES.queries),
        bm25("bm25_test", test_queries),
        *ranking("mlm"),
        *ranking("harp"),
        Command("report", "report", [*judged, *runs, *curves, "--output={out}"], suffix=".html"),
    ]
