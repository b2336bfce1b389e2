"""The whole road on an invented wiki, in about ten minutes on two cores: what `make demo` runs.

python -m harp_jax.experiments.plan --plan=configs/experiments/demo.py --output=demo

Four systems on the same test questions: BM25; a re-ranker fine-tuned from random weights; one fine-tuned after MLM; one
fine-tuned after HARP. MLM and HARP continue from the same MLM checkpoint, on the same batches, for the same steps. The wiki
is made up and small: the table shows that every part works, and says nothing about real text.
"""

from harp_jax.experiments.plan import Command

PRETRAIN, FINETUNE, DATA = "configs/demo.py", "configs/finetune_demo.py", "configs/data/demo.py"


def generation(name: str, *arguments: str) -> Command:
    source = "--config.source.paths=('{wiki}/wiki.xml.bz2',)"
    common = [f"--config={DATA}", source, "--config.tokenizer={vocabulary}", "--output={out}"]
    return Command(name, "data_pipeline.main", [*common, *arguments], [DATA])


def pretraining(name: str, *arguments: str) -> Command:
    return Command(name, "harp_jax.main", [f"--config={PRETRAIN}", "--workdir={out}", *arguments], [PRETRAIN])


def ranking(name: str, start: str) -> list[Command]:
    """Fine-tune, export and re-rank one system."""
    tuned, exported, run = f"finetuned_{name}", f"model_{name}", f"run_{name}"
    data = ["--config.docs={wiki}/docs.tsv", "--config.queries={wiki}/queries.tsv", "--config.qrels={wiki}/qrels.txt"]
    data += [
        "--config.candidates={bm25_train}",
        "--config.folds={wiki}/folds.tsv",
        "--config.train_folds=('0','1','2')",
    ]
    test = ["--docs={wiki}/docs.tsv", "--queries={wiki}/test.queries.tsv", "--run={bm25_test}", "--output={out}"]
    return [
        Command(tuned, "harp_jax.main", [f"--config={FINETUNE}", "--workdir={out}", start, *data], [FINETUNE]),
        Command(exported, "harp_jax.export", ["--workdir={" + tuned + "}", "--output={out}"]),
        Command(run, "rerank", ["--model={" + exported + "}", *test], suffix=".trec"),
    ]


def bm25(name: str, queries: str) -> Command:
    arguments = ["--docs={wiki}/docs.tsv", "--queries={wiki}/" + queries, "--k=30", "--output={out}"]
    return Command(name, "first-stage", arguments, suffix=".trec")


def get_plan() -> list[Command]:
    runs = ["--run=BM25={bm25_test}", "--run=fine-tuned only={run_untrained}"]
    runs += ["--run=after MLM={run_mlm}", "--run=after HARP={run_harp}"]
    curves = ["--curves=first MLM={mlm_first}", "--curves=MLM={mlm}", "--curves=HARP={harp}"]
    about = ["--title=harp_jax on an invented wiki", "--remark=Invented text: what it shows is that every part works."]
    texts = ["--config.data=('{texts}',)", "--config.tokenizer={vocabulary}"]
    judged = ["--qrels={wiki}/qrels.txt", "--queries={wiki}/test.queries.tsv", "--measures=RR@10 nDCG@10"]
    return [
        Command("wiki", "harp_jax", ["sample-wiki", "--output={out}", "--pages=800"]),
        Command(
            "vocabulary",
            "harp_jax",
            [
                "vocabulary",
                f"--config={DATA}",
                "--config.source.paths=('{wiki}/wiki.xml.bz2',)",
                "--output={out}",
                "--size=4000",
            ],
            [DATA],
        ),
        generation("texts", "--config.tasks=('mlm',)", "--config.encoder=uniform"),
        # Texts fill their rows: 16 × 2 of them are about the tokens of 32 pairs.
        pretraining("mlm_first", "--config.tasks=('mlm',)", "--config.batch_pairs=16", *texts),
        generation("pairs", "--config.encoder={mlm_first}"),
        pretraining("mlm", "--config.init={mlm_first}", "--config.data=('{pairs}',)", "--config.pair_weight=0.0"),
        pretraining("harp", "--config.init={mlm_first}", "--config.data=('{pairs}',)"),
        bm25("bm25_train", "train.queries.tsv"),
        bm25("bm25_test", "test.queries.tsv"),
        *ranking("untrained", "--config.tokenizer={vocabulary}"),
        *ranking("mlm", "--config.init={mlm}"),
        *ranking("harp", "--config.init={harp}"),
        Command(
            "report", "harp_jax.experiments.report", [*judged, *runs, *curves, *about, "--output={out}"], suffix=".html"
        ),
    ]
