"""DRMM, DUET, KNRM and Conv-KNRM in five folds, re-ranking BM25's candidates, beside BM25 and QL tuned on the training folds.

HARP_COLLECTION=cranfield python -m harp_jax.experiments.plan --plan=configs/experiments/neural_ir.py --output=neural_cranfield
HARP_COLLECTION=wiki      python -m harp_jax.experiments.plan --plan=configs/experiments/neural_ir.py --output=neural_wiki

HARP_DATA is the folder that holds cranfield/, wiki/ and vocab/ (../shared/data), HARP_MODELS and HARP_SEEDS name some of the
systems ("knrm drmm") and the seeds ("0 1 2"; 0). Words are stems without INQUERY's stopwords, as DRMM's authors have them; word
vectors are trained on the collection. KNRM and Conv-KNRM appear twice: with vectors that go on learning (their papers' way, for
hundreds of thousands of queries), and with the given ones, where only kernels and convolutions are trained, at ten times the
rate. Relevant documents that BM25 did not retrieve are no positives: they share fewer words with the query than its candidates
do, and nothing but matches is there to learn from (Cranfield's AP with them: DRMM .224, KNRM .156 and .183, DUET .198, Conv-KNRM
.135 and .207). Each system is also shown with BM25's score added, in the weights that are best on the other folds.

Cranfield's queries share their relevant documents, so its folds cut them apart at random, documents are seen in training, and
no training queries can be held out to select parameters by; its queries' own sources are no candidates. Wiki's folds are
grouped by relevant document, and RR@10 on 60 of the training queries selects. Stopwords, the length of Cranfield's queries, the
rate of the given vectors and the positives were settled on fold 1 of Cranfield, trained on 2 to 4; nothing on wiki.

Hardware: 2 CPU cores, --jobs=2: Cranfield 19 minutes, wiki 23 with words, vectors and tuning done (about a quarter of an hour)
and without conv_knrm. Rprec is the break-even point; wiki's queries have one relevant document. Seed 0, alone / with BM25:
               Cranfield AP    P@10           Rprec          wiki RR@10
  BM25, QL     .368, .324      .250, .222     .358, .318     .311, .303
  DRMM         .279 / .374     .205 / .252    .264 / .355    .238 / .340
  DUET         .224 / .371     .175 / .254    .203 / .358    .338 / .427
  KNRM         .194 / .374     .142 / .251    .169 / .356    .191 / .353
    given      .284 / .368     .200 / .250    .266 / .356    .142 / .320
  Conv-KNRM    .154 / .375     .119 / .254    .124 / .364    not run
    given      .278 / .384     .208 / .259    .261 / .370    .237 / .400
DUET, the only one that sees documents without matches, is more than a prior on wiki: its query blanked it gets .176 / .351.
"""

import os

from harp_jax.experiments.plan import Command

DATA = os.environ.get("HARP_DATA", os.path.join("..", "shared", "data"))
GIVEN = ["--config.model.train_vectors=False", "--config.learning_rate=1e-2"]
SYSTEMS: dict[str, tuple[str, list[str]]] = {
    "drmm": ("drmm", []),
    "duet": ("duet", []),
    "knrm": ("knrm", []),
    "knrm_given": ("knrm", GIVEN),
    "conv_knrm": ("conv_knrm", []),
    "conv_knrm_given": ("conv_knrm", GIVEN),
}
MODELS = os.environ.get("HARP_MODELS", " ".join(SYSTEMS)).split()
SEEDS = os.environ.get("HARP_SEEDS", "0").split()
FOLDS = 5
COLLECTIONS = {
    "cranfield": {
        "docs": "docs.tsv", "queries": "queries.tsv", "qrels": "qrels.txt", "exclude": "source_documents.tsv",
        "k": "100", "fit": "AP", "measures": "P@10 Rprec AP nDCG@10 RR@10",
    },
    "wiki": {
        "docs": "collection.jsonl.xz", "queries": "wikipassageqa.queries.tsv", "qrels": "wikipassageqa.qrels",
        "folds": "wikipassageqa.folds.tsv", "k": "50", "fit": "RR@10", "measures": "RR@10 nDCG@10 AP",
    },
}  # fmt: skip
# Of wiki the 100,000 most frequent words; documents are cut at 200 words.
VOCABULARY = {"cranfield": [], "wiki": ["--min_documents=3", "--max_words=100000"]}
VECTORS = {"cranfield": [], "wiki": ["--epochs=2"]}  # of wiki 13 M words a pass
SELECT = ["--config.select=RR@10", "--config.select_queries=60", "--config.select_depth=50", "--config.eval_every=128"]
SETTINGS = {
    "cranfield": ["--config.row_length=200", "--config.model.query_length=30"],
    "wiki": ["--config.row_length=200", "--config.epochs=3.0", *SELECT],
}


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
            Command("folds", "harp_jax.experiments.make_folds", [queries, "--output={out}"], [place["queries"]], ".tsv")
        )
    stopwords = os.path.join(DATA, "vocab", "inquery_stopwords.txt")
    stems = [*docs, "--stemmer=english", f"--stopwords={stopwords}", *VOCABULARY[name], "--output={out}"]
    commands.append(Command("words", "harp_jax.text.words", stems, [place["docs"], stopwords]))
    sentences = [*docs, "--words={words}", *VECTORS[name], "--output={out}"]
    commands.append(Command("vectors", "harp_jax.text.word_vectors", sentences, suffix=".txt"))
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
        if (name, lexical) == ("cranfield", "bm25"):
            tuning.append("--k1=0.6,0.9,1.2,1.6,2,3,4,6")  # in short abstracts every repetition counts
        commands.append(Command(f"tuned_{lexical}", "tune-first-stage", tuning, reads, ".json"))
        ranking = [*common, "--parameters={tuned_" + lexical + "}"]
        commands.append(Command(lexical, "first-stage", ranking, suffix=".trec"))
    systems: dict[str, list[str]] = {}
    fitted = ["--method=weights", f"--qrels={place['qrels']}", f"--folds={folds}", f"--measure={files['fit']}"]
    for model in MODELS:
        for seed in SEEDS:
            made = cross_validated(model, seed, place, folds, SETTINGS[name])
            run = made[-1].name
            both = ["{bm25}", "{" + run + "}", *fitted, "--output={out}"]
            commands += [*made, Command(f"bm25_{run}", "fuse", both, suffix=".trec")]
            systems.setdefault(model, []).append(run)
            systems.setdefault(f"{model}+BM25", []).append(f"bm25_{run}")
    runs = [f"{model}=" + ",".join("{" + run + "}" for run in made) for model, made in systems.items()]
    table = ["BM25={bm25}", "QL={ql}", *runs, f"--qrels={place['qrels']}", f"--measures={files['measures']}"]
    table += ["--baseline=BM25", "--per_query={out}"]
    return [*commands, Command("evaluate", "evaluate", table, suffix=".tsv")]


def cross_validated(system: str, seed: str, place: dict[str, str], folds: str, settings: list[str]) -> list[Command]:
    """A model for each fold, trained on the others; the last command joins the folds' runs."""
    model, own = SYSTEMS[system]
    config = f"configs/baselines/{model}.py"
    commands, runs = [], []
    for fold in range(FOLDS):
        # The folds of wiki are numbered from 0, too.
        others = tuple(str(other) for other in range(FOLDS) if other != fold)
        data = [f"--config.{field}={place[field]}" for field in ("docs", "queries", "qrels")]
        data += ["--config.fields=('title','body')", "--config.tokenizer={words}", "--config.candidates={bm25}"]
        data += [
            "--config.missed_positives=False",
            f"--config.folds={folds}",
            f"--config.train_folds={others!r}",
            f"--config.seed={seed}",
            *settings,
            *own,
        ]
        if model != "duet":
            data.append("--config.vectors={vectors}")
        trained = f"{system}_s{seed}_f{fold}"
        commands.append(Command(trained, "harp_jax.main", [f"--config={config}", "--workdir={out}", *data], [config]))
        ranked = ["--model={" + trained + "}", f"--docs={place['docs']}", "--fields=title,body", "--run={bm25}"]
        ranked += [f"--queries={place['queries']}", f"--folds={folds}", f"--fold={fold}", "--output={out}"]
        commands.append(Command(f"run_{trained}", "rerank", ranked, suffix=".trec"))
        runs.append("{run_" + trained + "}")
    commands.append(Command(f"{system}_s{seed}", "fuse", ["--method=join", *runs, "--output={out}"], suffix=".trec"))
    return commands
