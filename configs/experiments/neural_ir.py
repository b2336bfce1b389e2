"""DRMM, DUET, KNRM and Conv-KNRM in five folds, re-ranking BM25's candidates, beside BM25 and QL tuned on the training folds.

HARP_COLLECTION=cranfield python -m harp_jax.plan --plan=configs/experiments/neural_ir.py --output=neural_cranfield
HARP_COLLECTION=wiki      python -m harp_jax.plan --plan=configs/experiments/neural_ir.py --output=neural_wiki

HARP_DATA is the folder that holds cranfield/ and wiki/ (../shared/data), HARP_MODELS and HARP_SEEDS name some of the models
("knrm drmm") and the seeds ("0 1 2"; 0). Word vectors are trained on the collection. Cranfield's queries share their relevant
documents, so its folds cut them apart at random and documents are seen in training; its queries' own sources are no candidates.
Wiki's folds are grouped by relevant document. Settings were fixed beforehand, none was chosen on a fold.

Hardware: 2 CPU cores; on Cranfield 2 minutes a fold for KNRM (6.7 steps a second on a busy machine); by their products, DUET and
Conv-KNRM take several times that. Rprec is the break-even point.
"""

import os

from harp_jax.plan import Command

DATA = os.environ.get("HARP_DATA", os.path.join("..", "shared", "data"))
MODELS = os.environ.get("HARP_MODELS", "drmm duet knrm conv_knrm").split()
SEEDS = os.environ.get("HARP_SEEDS", "0").split()
FOLDS = 5
COLLECTIONS = {
    "cranfield": {
        "docs": "docs.tsv", "queries": "queries.tsv", "qrels": "qrels.txt", "exclude": "source_documents.tsv", "k": "100",
        "measures": "P@10 Rprec AP nDCG@10 RR@10",
    },
    "wiki": {
        "docs": "collection.jsonl.xz", "queries": "wikipassageqa.queries.tsv", "qrels": "wikipassageqa.qrels",
        "folds": "wikipassageqa.folds.tsv", "k": "50", "measures": "RR@10 nDCG@10 AP",
    },
}  # fmt: skip
# Of wiki the 100,000 most frequent words; documents are cut at 200 words.
VOCABULARY = {"cranfield": [], "wiki": ["--min_documents=3", "--max_words=100000"]}
SETTINGS = {"cranfield": ["--config.row_length=200"], "wiki": ["--config.row_length=200", "--config.epochs=3.0"]}


def get_plan() -> list[Command]:
    name = os.environ.get("HARP_COLLECTION", "cranfield")
    files = COLLECTIONS[name]
    place = {
        field: os.path.join(DATA, name, files[field])
        for field in ("docs", "queries", "qrels", "folds", "exclude")
        if field in files
    }
    docs, queries = [f"--docs={place['docs']}", "--fields=title,body"], f"--queries={place['queries']}"
    folds = place.get("folds", "{folds}")
    commands = []
    if "folds" not in place:
        commands.append(
            Command("folds", "harp_jax.make_folds", [queries, "--output={out}"], [place["queries"]], ".tsv")
        )
    stems = [*docs, "--stemmer=english", *VOCABULARY[name], "--output={out}"]
    commands.append(Command("words", "harp_jax.words", stems, [place["docs"]]))
    commands.append(
        Command("vectors", "harp_jax.word_vectors", [*docs, "--words={words}", "--output={out}"], suffix=".txt")
    )
    barred = [f"--exclude={place['exclude']}"] if "exclude" in place else []
    for lexical in ("bm25", "ql"):
        common = [
            f"--model={lexical}",
            *docs,
            queries,
            *barred,
            f"--folds={folds}",
            f"--k={files['k']}",
            "--output={out}",
        ]
        reads = list(place.values())
        tuning = [*common, f"--qrels={place['qrels']}", "--measure=AP"]
        commands.append(Command(f"tuned_{lexical}", "harp_jax.tune_first_stage", tuning, reads, ".json"))
        ranking = [*common, "--parameters={tuned_" + lexical + "}"]
        commands.append(Command(lexical, "harp_jax.first_stage", ranking, suffix=".trec"))
    systems: dict[str, list[str]] = {}
    for model in MODELS:
        for seed in SEEDS:
            made = cross_validated(model, seed, place, folds, SETTINGS[name])
            commands += made
            systems.setdefault(model, []).append(made[-1].name)
    runs = [f"{model}=" + ",".join("{" + run + "}" for run in made) for model, made in systems.items()]
    table = ["BM25={bm25}", "QL={ql}", *runs, f"--qrels={place['qrels']}", f"--measures={files['measures']}"]
    table += ["--baseline=BM25", "--per_query={out}"]
    return [*commands, Command("evaluate", "harp_jax.evaluate", table, suffix=".tsv")]


def cross_validated(model: str, seed: str, place: dict[str, str], folds: str, settings: list[str]) -> list[Command]:
    """A model for each fold, trained on the others; the last command joins the folds' runs."""
    config = f"configs/baselines/{model}.py"
    commands, runs = [], []
    for fold in range(FOLDS):
        # The folds of wiki are numbered from 0, too.
        others = tuple(str(other) for other in range(FOLDS) if other != fold)
        data = [f"--config.{field}={place[field]}" for field in ("docs", "queries", "qrels")]
        data += ["--config.fields=('title','body')", "--config.tokenizer={words}", "--config.candidates={bm25}"]
        data += [f"--config.folds={folds}", f"--config.train_folds={others!r}", f"--config.seed={seed}", *settings]
        if model != "duet":
            data.append("--config.vectors={vectors}")
        trained = f"{model}_s{seed}_f{fold}"
        commands.append(Command(trained, "harp_jax.main", [f"--config={config}", "--workdir={out}", *data], [config]))
        ranked = ["--model={" + trained + "}", f"--docs={place['docs']}", "--fields=title,body", "--run={bm25}"]
        ranked += [f"--queries={place['queries']}", f"--folds={folds}", f"--fold={fold}", "--output={out}"]
        commands.append(Command(f"run_{trained}", "harp_jax.rerank", ranked, suffix=".trec"))
        runs.append("{run_" + trained + "}")
    commands.append(
        Command(f"{model}_s{seed}", "harp_jax.fuse", ["--method=join", *runs, "--output={out}"], suffix=".trec")
    )
    return commands
