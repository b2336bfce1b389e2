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

from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, blanked, trained_ranker

PRETRAIN, FINETUNE, DATA = "configs/demo.py", "configs/finetune_demo.py", "configs/data/demo.py"
LAYERS = 3
TUNED = {"random": "from random weights", "mlm": "after MLM", "harp": "after links"}
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WIKI = Collection("{wiki}/docs.tsv", "{wiki}/train.queries.tsv", "{wiki}/qrels.txt", ("body",))
TEST = Collection("{wiki}/docs.tsv", "{wiki}/test.queries.tsv", "{wiki}/qrels.txt", ("body",))


def get_plan(
    encoder: str = os.path.join("~", ".cache", "harp_jax", "minilm"),
    pages: int = 400,
    seed: int = 0,
    steps: int = 120,
    informative: bool = True,
    fine_tune: bool = True,
) -> list[Command]:
    """Options:

    encoder: folder of all-MiniLM-L6-v2
    pages: number of articles in the wiki
    seed: random seed of the wiki and of every training
    steps: pre-training steps
    informative: False is the control, whose links say nothing true about their pages
    fine_tune: False stops after the ranker without labels, in half the time
    """
    encoder = os.path.expanduser(encoder)
    start = [f"--encoder={encoder}", f"--layers={LAYERS}", f"--sha256={MINILM_SHA256}", "--output={out}"]
    wiki = ["--output={out}", f"--pages={pages}", f"--seed={seed}", *([] if informative else ["--uninformative_links"])]
    pairs = [f"--config={DATA}", "--config.source.paths=('{wiki}/wiki.xml.bz2',)", "--config.tokenizer={start}"]
    pretrain = [f"--config={PRETRAIN}", "--config.init={start}", "--config.data=('{pairs}',)", f"--config.seed={seed}"]
    pretrain += [f"--config.steps={steps}", "--workdir={out}"]
    zero = ["--model={harp}", *TEST.options, "--run={bm25_test}", "--output={out}"]
    cosine = ["--model={start}", "--cosine", *TEST.options, "--run={bm25_test}", "--output={out}"]
    alone = Command("run_harp_alone", "rerank", zero, suffix=".trec")
    commands = [
        Command("start", "export", start),
        Command("wiki", "sample-wiki", wiki),
        Command("pairs", "generate", [*pairs, f"--config.seed={seed}", "--output={out}"]),
        Command("harp", "train", pretrain),
        bm25("bm25_test", TEST),
        Command("run_cosine", "rerank", cosine, suffix=".trec"),
        alone,
        blanked(alone, "run_blank_alone"),
    ]
    if fine_tune:
        commands += [
            Command("mlm", "train", [*pretrain, "--config.pair_weight=0.0", "--config.mlm_weight=1.0"]),
            bm25("bm25_train", WIKI),
            *fine_tuned("random", seed, "tokenizer={start}"),
            *fine_tuned("mlm", seed, "init={mlm}"),
            *fine_tuned("harp", seed, "init={harp}"),
        ]
    return [*commands, Command("report", "report", report(fine_tune), suffix=".html")]


def bm25(name: str, questions: Collection) -> Command:
    return Command(name, "first-stage", [*questions.options, "--k=12", "--output={out}"], suffix=".trec")


def fine_tuned(name: str, seed: int, start: str) -> list[Command]:
    """Fine-tunes, exports and re-ranks with one system."""
    settings = [start, f"seed={seed}"]
    return trained_ranker(
        name,
        WIKI,
        config=FINETUNE,
        candidates="{bm25_train}",
        settings=settings,
        test=TEST,
        test_candidates="{bm25_test}",
    )


def report(fine_tune: bool) -> list[str]:
    runs = {
        "BM25": "bm25_test",
        "the encoder's vectors, before pre-training": "run_cosine",
        "links, no labels": "run_harp_alone",
        "links, no labels, query blanked": "run_blank_alone",
    }
    curves = ["--curves=links={harp}"]
    if fine_tune:
        runs |= {f"fine-tuned {start}": f"run_{name}" for name, start in TUNED.items()}
        curves += ["--curves=MLM={mlm}"]
    return [
        "--qrels={wiki}/qrels.txt",
        "--queries={wiki}/test.queries.tsv",
        "--measures=RR@10 nDCG@10",
        *(f"--run={row}={{{step}}}" for row, step in runs.items()),
        "--chance=BM25",
        "--blank=links, no labels=links, no labels, query blanked",
        *curves,
        "--title=harp_jax on an invented wiki",
        "--remark=Invented text: it shows that links teach to rank and save labels, not how much they gain on real text.",
        "--output={out}",
    ]
