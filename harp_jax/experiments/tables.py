"""Systems on each run of candidates, with significance marks, chance and blank queries: what HARP's Tables 2 to 4 are made of.

harp plan tables --output=tables --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/
… --set candidates=ANCE=ance.trec,BM25=bm25.trec                                                          one table for each run
harp plan tables --output=cv --set lexical= --set neural_rankers= --set transformers=none --set init=runs/harp …   one fine-tuning

Every pre-trained system (`Pretraining`) reads the same pages, starts from the same parameters and gets the same number of updates;
only tasks and loss weights differ. It is fine-tuned and ranks in one of two ways (`Benchmark`): in each fold of the queries,
trained on all others, the folds' runs joined; or, with separate test queries (`test_queries`, or MS MARCO's files in `folder`),
once trained, each of their sets.

Rows: the candidates; BM25 and QL, and what links say without training: BM25F with a field of anchor texts, BM25 over documents
expanded by their anchor texts, and the candidates' score with log in-links or log length added. These are tuned, weights included,
on training queries; bm25f, expanded and inlinks read `source`. Then the neural rankers, and transformers without pre-training and
after MLM alone, ICT, WLP, PROP and HARP. `target_pairs` (harp generate, task prop, on the collection itself) adds PROP on the
target collection, as in the paper's PROP (MARCO). no_mlm, no_rqp and so on are HARP without that loss, with the same updates: the
other tasks get its share. sjtf is not pre-trained; its fine-tuning also predicts masked query tokens (configs/baselines/sjtf.py).

`ensembles` adds, for each neural ranker and transformer, the sum with the candidates' score, weighted as is best on the other folds
(+), the mean of its seeds' normalised scores, and last the weighted sum of all transformers and the candidates. A gain of HARP that
the sum with BM25 closes was lexical.

† marks values that differ from HARP (with `ensembles`, HARP with the candidates): p < .05 in both tests after Holm's correction.
By the first measure, a system may be flagged "not above chance" or "no better than with its query blanked" (`blank`). The claim
that pre-training from links helps rests on pairs without the judged documents: --set generation=exclude_destinations=judged.txt;
without it popularity explains part of the result. (The rows of anchor texts then lack the same links.)

Hardware: any. The scale `tiny` (BERT-tiny, 600 updates) checks the pipeline on two cores and is far too small to rank the systems.
Figures: docs/lab/neural.md for neural rankers, docs/lab/links.md for links; the others not run yet.
"""

import os

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir.words import VECTORS, write_words
from harp_jax.experiments.benchmark import FOLDED, Bench, Benchmark, Runs
from harp_jax.experiments.experiment import check_known
from harp_jax.experiments.pretraining import NONE, SYSTEMS, TASKS, Pretraining
from harp_jax.ranking.first_stage import prior_files

# Rows of the tables.
LEXICAL = ("bm25", "ql", "bm25f", "expanded", "inlinks", "length")
NEURAL = ("drmm", "duet", "knrm", "conv_knrm")
# NAME_given: trained on top of given word vectors, which stay unchanged.
GIVEN = {"model.train_vectors": False, "learning_rate": 1e-2}
TRANSFORMERS = (NONE, "mlm", "ict", "wlp", "prop", "harp")
PRETRAINING, BENCHMARK = Pretraining(), Benchmark()


def tables(
    output: str,
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    lexical: tuple[str, ...] = LEXICAL,
    neural_rankers: tuple[str, ...] = NEURAL,
    transformers: tuple[str, ...] = TRANSFORMERS,
    target_pairs: str = "",
    blank: tuple[str, ...] = ("harp",),
    ensembles: bool = False,
    others: tuple[str, ...] = (),
    name: str = "table",
    remarks: tuple[str, ...] = (),
) -> None:
    """Trains and tests the systems, and prints a table for each run of candidates and test set.

    lexical: rows without neural networks, which hold an index of all documents in memory
    neural_rankers: rows of neural rankers; knrm_given and conv_knrm_given do not train the word vectors
    transformers: rows of transformers; none and sjtf are not pre-trained, recommended is the preset for small encoders
    target_pairs: finished PROP pairs from the target collection
    blank: transformers that also rank blank queries
    ensembles: add rows for sums with the candidates, over all seeds, and over all systems
    others: encoders that are fine-tuned without pre-training, and whose mean with the transformers is the row "ensemble"
    name: what the names of the tables' files begin with
    remarks: lines below the tables
    """
    from data_pipeline.output.collection import write_anchors

    check_known("lexical", lexical, LEXICAL)
    check_known("neural_rankers", neural_rankers, (*NEURAL, "knrm_given", "conv_knrm_given"))
    fitted = ensembles or not {"inlinks", "length"}.isdisjoint(lexical)
    if fitted and (benchmark.folder or benchmark.test_queries or len(benchmark.tested) == 1):
        raise InputError(
            "ensembles, inlinks and length fit weights on other tested folds: test two or more, and leave test_queries out"
        )
    bench = Bench(output, benchmark, (target_pairs, *others, *pretraining.files(transformers)))
    benchmark, steps, seeds = bench.options, bench.steps, benchmark.seeds

    # What each system's training on judged queries starts from: pre-trained transformers, once for all runs of candidates.
    starts = pretraining.starts(steps, transformers, seeds)
    for seed in seeds if target_pairs else ():
        workdir = pretraining.trained(steps, "prop_target", target_pairs, seed, SYSTEMS["prop"])
        starts["prop_target", seed] = {"init": workdir}
    encoders = {os.path.basename(os.path.normpath(path)): path for path in others}
    starts |= {(name, seed): {"init": path} for name, path in encoders.items() for seed in seeds}
    transformers = (*transformers, *(["prop_target"] if target_pairs else []), *encoders)

    # Anchor texts for lexical rows; stems and word vectors of the documents for neural rankers.
    anchors, words = f"{output}/anchors.tsv", f"{output}/words"
    if not {"bm25f", "expanded", "inlinks"}.isdisjoint(lexical):
        steps("Read anchor texts", write_anchors, pretraining.job(TASKS), anchors)
    if neural_rankers:
        reading = (benchmark.docs, words, benchmark.fields, "english", "english")  # the stemmer and the stopwords
        steps("Count words, train word vectors", write_words, *reading)
    for system in neural_rankers:
        vectors = {} if system == "duet" else {"vectors": f"{words}/{VECTORS}"}
        given = GIVEN if system.endswith("_given") else {}
        starts |= {(system, seed): {"tokenizer": words, **vectors, **given} for seed in seeds}

    for label, run in bench.candidates.items():
        folder = label.lower()
        first: Runs = {FOLDED: run} | {test: one.run for test, one in bench.tests.items() if one.run}
        rows: dict[str, list[Runs]] = {label: [first]}
        blanks = {}
        for system in lexical:
            if system.upper() != label.upper():
                rows[system] = [lexical_row(bench, system, f"{folder}/{system}", first, anchors)]
        for system in (*neural_rankers, *transformers):
            neural = system.removesuffix("_given") if system in neural_rankers else ""
            with_blank = system in blank and not neural
            both = [
                bench.ranker(f"{folder}/{system}_s{s}", {**starts[system, s], "seed": s}, run, neural, with_blank)
                for s in seeds
            ]
            rows[system] = [ranked for ranked, _ in both]
            if with_blank:
                blanks[system] = f"{system}_blank"
                rows[blanks[system]] = [blanked for _, blanked in both]
            if ensembles:
                rows[f"{system}+{label}"] = [
                    bench.fused(f"{folder}/{system}_s{seed}+{folder}", (first, one), "weights")
                    for seed, one in zip(seeds, rows[system])
                ]
            if ensembles and len(seeds) > 1:
                rows[f"{system} ensemble"] = [bench.fused(f"{folder}/{system}_mean", rows[system], "mean")]
        if others:
            every = [one for system in transformers for one in rows[system]]
            rows["ensemble"] = [bench.fused(f"{folder}/ensemble", every, "mean")]
        if ensembles and len(transformers) > 1:
            firsts = [rows[system][0] for system in transformers]
            rows["all"] = [bench.fused(f"{folder}/all", (first, *firsts), "weights")]
        baseline = (f"harp+{label}" if ensembles else "harp") if "harp" in transformers else label
        bench.table(f"{name}_{folder}", rows, baseline, (label, *neural_rankers, *transformers)[-1], blanks, remarks)


def lexical_row(bench: Bench, system: str, name: str, first: Runs, anchors: str) -> Runs:
    """The candidates `first`, re-ranked without neural networks."""
    if system in ("bm25", "ql"):
        return bench.lexical(system, name, first[FOLDED])
    if system in ("bm25f", "expanded"):
        return bench.lexical("bm25" if system == "expanded" else system, name, first[FOLDED], anchors=anchors)
    source = {"anchors": anchors} if system == "inlinks" else {"docs": bench.options.docs, "fields": ("body",)}
    prior = {FOLDED: f"{bench.output}/{name}_prior.trec"}
    prior_files(run=first[FOLDED], feature=system, output=prior[FOLDED], **source)
    return bench.fused(name, (first, prior), "weights", normalise="none")
