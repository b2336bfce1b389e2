"""The pipeline end to end on an invented wiki, in about ten minutes on two cores: what `make demo` runs.

harp plan demo --output=demo

Four systems on the same test questions: BM25; a re-ranker fine-tuned from random weights; one fine-tuned after MLM; one
fine-tuned after HARP. MLM and HARP continue from the same MLM checkpoint, on the same batches, for the same steps. The wiki
is invented and small: the table shows that every part works, and nothing about real text.
"""

from dataclasses import replace

from harp_jax.experiments.plan import Command
from harp_jax.experiments.ranking_steps import Collection, trained_ranker

PRETRAIN, FINETUNE, DATA = "configs/demo.py", "configs/finetune_demo.py", "configs/data/demo.py"
TRAIN = Collection("{wiki}/docs.tsv", "{wiki}/queries.tsv", "{wiki}/qrels.txt")
TEST = replace(TRAIN, queries="{wiki}/test.queries.tsv")


def generation(name: str, *arguments: str) -> Command:
    source = "--config.source.paths=('{wiki}/wiki.xml.bz2',)"
    common = [f"--config={DATA}", source, "--config.tokenizer={vocabulary}", "--output={out}"]
    return Command(name, "generate", [*common, *arguments])


def pretraining(name: str, *arguments: str) -> Command:
    return Command(name, "train", [f"--config={PRETRAIN}", "--workdir={out}", *arguments])


def ranking(name: str, start: str) -> list[Command]:
    """Fine-tunes, exports and re-ranks with one system."""
    folds = ["folds={wiki}/folds.tsv", "train_folds=('0','1','2')"]
    return trained_ranker(
        name, TRAIN, config=FINETUNE, candidates="{bm25_train}", settings=[start, *folds], test=TEST,
        test_candidates="{bm25_test}",
    )  # fmt: skip


def bm25(name: str, queries: str) -> Command:
    arguments = ["--docs={wiki}/docs.tsv", "--queries={wiki}/" + queries, "--k=30", "--output={out}"]
    return Command(name, "first-stage", arguments, suffix=".trec")


def get_plan() -> list[Command]:
    runs = ["--run=BM25={bm25_test}", "--run=fine-tuned only={run_untrained}"]
    runs += ["--run=after MLM={run_mlm}", "--run=after HARP={run_harp}"]
    curves = ["--curves=first MLM={mlm_first}", "--curves=MLM={mlm}", "--curves=HARP={harp}"]
    about = ["--title=harp_jax on an invented wiki", "--remark=Invented text: it shows only that every part works."]
    texts = ["--config.data=('{texts}',)", "--config.tokenizer={vocabulary}"]
    judged = ["--qrels={wiki}/qrels.txt", "--queries={wiki}/test.queries.tsv", "--measures=RR@10 nDCG@10"]
    vocabulary = [f"--config={DATA}", "--config.source.paths=('{wiki}/wiki.xml.bz2',)", "--output={out}", "--size=4000"]
    return [
        Command("wiki", "sample-wiki", ["--output={out}", "--pages=800"]),
        Command("vocabulary", "vocabulary", vocabulary),
        generation("texts", "--config.tasks=('mlm',)", "--config.encoder=uniform"),
        # Texts fill their rows: 16 × 2 of them have about as many tokens as 32 pairs.
        pretraining("mlm_first", "--config.tasks=('mlm',)", "--config.batch_pairs=16", *texts),
        generation("pairs", "--config.encoder={mlm_first}"),
        pretraining("mlm", "--config.init={mlm_first}", "--config.data=('{pairs}',)", "--config.pair_weight=0.0"),
        pretraining("harp", "--config.init={mlm_first}", "--config.data=('{pairs}',)"),
        bm25("bm25_train", "train.queries.tsv"),
        bm25("bm25_test", "test.queries.tsv"),
        *ranking("untrained", "tokenizer={vocabulary}"),
        *ranking("mlm", "init={mlm}"),
        *ranking("harp", "init={harp}"),
        Command("report", "report", [*judged, *runs, *curves, *about, "--output={out}"], suffix=".html"),
    ]
