"""LinkLearn trained on Wikipedia's links, applied unchanged to Cranfield, beside Okapi BM25 tuned twice and query likelihood.

python -m harp_jax.experiments.plan --plan=configs/experiments/linklearn.py --output=linklearn

HARP_DATA is the folder that holds wiki/ and cranfield/ (../shared/data), HARP_SEEDS the seeds ("0 1 2 3 4"; 0), HARP_STEPS the
steps (those of the config). Systems: LinkLearn;
LinkLearn with negatives in proportion to their links, and with RankNet's loss; with the rows of tables as further linked documents;
Okapi with K and B tuned on the same artificial task as LinkLearn (other queries, as in the paper); BM25 and QL tuned on the
training folds of Cranfield itself, which LinkLearn never saw. The queries' own source documents are no candidates.

Hardware: 2 CPU cores, --jobs=2, four minutes a seed with 3,000 steps (1.4 million constraints). Rprec is the break-even point.
Measured so, seed 0, P@10 / Rprec / AP on Cranfield, and AP on held-out linked documents:
  LinkLearn .206 / .249 / .283, .692; with RankNet's loss .217 / .268 / .300, .694; negatives by links .168 / .204 / .239, .672
  Okapi, K .1 and B .75 chosen on the same links .193 / .278 / .284, .608
  with rows LinkLearn .245 / .328 / .354, .843; Okapi, K 1.6 and B .9 chosen there .247 / .343 / .365, .796
  tuned on Cranfield's own folds BM25 .250 / .358 / .374, QL .222 / .318 / .331; Ranking SVM, per term, .291 on held-out links
The paper's gain of 10 % shows on the links themselves (14 %), and on Cranfield in P@10 alone (7 %, n.s.; RankNet 12 %). What
does not carry over is what both learn from long linked pages: one occurrence of a rare shared name decides there. Okapi's K goes to
.1, and MLP₂² grows 17-fold from idf 3 to 7. With texts as short as the rows of tables it grows 5-fold, as idf² does, K is 1.6,
and both do nearly as well as what was tuned on Cranfield.
"""

import os

from harp_jax.experiments.plan import Command

DATA = os.environ.get("HARP_DATA", os.path.join("..", "shared", "data"))
SEEDS = os.environ.get("HARP_SEEDS", "0").split()
STEPS = [f"--config.steps={steps}" for steps in os.environ.get("HARP_STEPS", "").split()]
GRIDS = {"bm25": ["--k1=0.6,0.9,1.2,1.6,2,3,4,6"], "ql": []}  # in short abstracts every repetition counts
CONFIG = "configs/baselines/linklearn.py"
PAGES, ROWS, LEADS = (
    os.path.join(DATA, "wiki", name)
    for name in ("linked_pages.jsonl.xz", "linked_table_rows.jsonl.xz", "collection.jsonl.xz")
)
REDIRECTS = os.path.join(DATA, "wiki", "redirects.tsv")
SYSTEMS = {
    "linklearn": ["--config.ranking_svm_constraints=20000"],
    "linked_negatives": ["--config.negatives_from=linked"],
    "ranknet": ["--config.loss=logistic"],
    "rows": [f"--config.docs=('{PAGES}','{ROWS}','{LEADS}')"],
}


def get_plan() -> list[Command]:
    docs, queries, qrels, sources = (
        os.path.join(DATA, "cranfield", name)
        for name in ("docs.tsv", "queries.tsv", "qrels.txt", "source_documents.tsv")
    )
    test = [f"--docs={docs}", f"--queries={queries}", "--fields=title,body", f"--exclude={sources}", "--k=1000"]
    reads = [docs, queries, qrels, sources]
    commands = [
        Command(
            "folds", "harp_jax.experiments.make_folds", [f"--queries={queries}", "--output={out}"], [queries], ".tsv"
        )
    ]
    for lexical in ("bm25", "ql"):
        common = [f"--model={lexical}", *test, "--folds={folds}", "--output={out}"]
        tuning = [*common, f"--qrels={qrels}", "--measure=AP", *GRIDS[lexical]]
        commands.append(Command(f"tuned_{lexical}", "tune-first-stage", tuning, reads, ".json"))
        ranking = [*common, "--parameters={tuned_" + lexical + "}"]
        commands.append(Command(lexical, "first-stage", ranking, suffix=".trec"))
    runs: dict[str, list[str]] = {"BM25": ["bm25"], "QL": ["ql"], "okapi": []}
    for name, settings in SYSTEMS.items():
        runs[name] = []
        for seed in SEEDS:
            given = [f"--config.docs=('{PAGES}','{LEADS}')", f"--config.redirects=('{REDIRECTS}',)", *settings, *STEPS]
            model, run = f"{name}_s{seed}", f"run_{name}_s{seed}"
            arguments = [f"--config={CONFIG}", "--workdir={out}", *given, f"--config.seed={seed}"]
            commands.append(Command(model, "harp_jax.linklearn.train", arguments, [CONFIG, PAGES, LEADS]))
            ranking = ["--model={" + model + "}", *test, "--output={out}"]
            commands.append(Command(run, "harp_jax.linklearn.rank", ranking, suffix=".trec"))
            runs[name].append(run)
            if name == "linklearn":
                okapi = f"okapi_s{seed}"
                commands.append(Command(okapi, "harp_jax.linklearn.rank", [*ranking, "--okapi"], suffix=".trec"))
                runs["okapi"].append(okapi)
    table = [f"{name}=" + ",".join("{" + run + "}" for run in made) for name, made in runs.items()]
    table += [f"--qrels={qrels}", "--measures=P@10 Rprec AP nDCG@10", "--baseline=okapi", "--per_query={out}"]
    return [*commands, Command("evaluate", "evaluate", table, suffix=".tsv")]
