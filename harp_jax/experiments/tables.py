"""Systems on each run of candidates, with significance marks, chance and blank queries: what HARP's Tables 2 to 4 are made of.

harp plan tables --output=tables --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/
… --set candidates=ANCE=ance.trec,BM25=bm25.trec                                                          one table for each run
harp plan tables --output=cv --set lexical= --set neural_rankers= --set transformers=none --set init=runs/harp …   one fine-tuning

Rows: the candidates; BM25 and QL, and what links say without training: BM25F with a field of anchor texts, BM25 over documents
expanded by their anchor texts, and the candidates' score with log in-links or log length added. These are tuned, weights included,
on training queries; bm25f, expanded and inlinks read `source`. Then the neural rankers, and transformers without pre-training and
after MLM alone, ICT, WLP, PROP and HARP, each pre-trained with the same budget and fine-tuned in the same way. `target_pairs`
(harp generate, task prop, on the collection itself) adds PROP on the target collection, as in the paper's PROP (MARCO). no_mlm,
no_rqp and so on are HARP without that loss, with the same updates: the other tasks get its share. sjtf is not pre-trained; its
fine-tuning also predicts masked query tokens (configs/baselines/sjtf.py).

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
from collections.abc import Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.experiments.benchmark import BENCHMARK, FOLDED, NEURAL, Benchmark, Prepared, Runs
from harp_jax.experiments.experiment import check_known
from harp_jax.experiments.pretraining import NONE, NOT_PRETRAINED, PRETRAINING, SYSTEMS, TASKS, Pretraining
from harp_jax.ranking.first_stage import prior_files

LEXICAL = ("bm25", "ql", "bm25f", "expanded", "inlinks", "length")
TRANSFORMERS = (NONE, "mlm", "ict", "wlp", "prop", "harp")
TARGET = "prop_target"


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
) -> None:
    """Systems on your collection: what HARP's Tables 2 to 4 are made of, in five folds or on test sets.

    lexical: rows without neural networks
    neural_rankers: rows of neural rankers; knrm_given and conv_knrm_given do not train the word vectors
    transformers: rows of transformers; none and sjtf are not pre-trained, recommended is the preset for small encoders
    target_pairs: finished PROP pairs from the target collection
    blank: transformers that also rank blank queries
    ensembles: add rows for sums with the candidates, over all seeds, and over all systems
    """
    rows = lexical, neural_rankers, transformers
    compare(Steps(output), "table", pretraining, benchmark, *rows, target_pairs, blank, ensembles)


def compare(
    steps: Steps,
    name: str,
    pretraining: Pretraining,
    benchmark: Benchmark,
    lexical: Sequence[str] = (),
    neural_rankers: Sequence[str] = (),
    transformers: Sequence[str] = (),
    target_pairs: str = "",
    blank: Sequence[str] = (),
    ensembles: bool = False,
    others: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> None:
    """Trains and ranks with the systems, and prints the tables NAME_LABEL. Arguments as in `tables`; `others`: encoders that are
    fine-tuned without pre-training, and whose mean with the transformers is the row "ensemble"."""
    from data_pipeline.output.collection import write_anchors

    check_known("lexical", lexical, LEXICAL)
    check_known("neural_rankers", neural_rankers, (*NEURAL, "knrm_given", "conv_knrm_given"))
    check_known("transformers", transformers, (*NOT_PRETRAINED, *SYSTEMS))
    fitted = ensembles or not {"inlinks", "length"}.isdisjoint(lexical)
    if fitted and (benchmark.tests or len(benchmark.tested) == 1):
        raise InputError(
            "ensembles, inlinks and length fit weights on other tested folds: test two or more, and leave test_queries out"
        )
    benchmark.check(target_pairs, *others, *pretraining.files(bool(set(transformers) - NOT_PRETRAINED.keys())))
    on = benchmark.prepared(steps)
    seeds = benchmark.seeds

    # What the systems need, once for all runs of candidates.
    starts = pretraining.systems(steps, transformers, seeds)
    if target_pairs:
        starts |= {(TARGET, seed): pretraining.on_target(steps, target_pairs, seed) for seed in seeds}
        transformers = (*transformers, TARGET)
    encoders = {os.path.basename(os.path.normpath(path)): path for path in others}
    starts |= {(name, seed): {"init": path} for name, path in encoders.items() for seed in seeds}
    transformers = (*transformers, *encoders)
    anchors = f"{steps.output}/anchors.tsv"
    if not {"bm25f", "expanded", "inlinks"}.isdisjoint(lexical):
        steps("Read anchor texts", write_anchors, pretraining.job(TASKS), anchors)
    if neural_rankers:
        on.words()

    for label, run in on.candidates.items():
        folder = label.lower()
        first = {FOLDED: run} | {test: one.run for test, one in on.tests.items() if one.run}
        rows: dict[str, list[Runs]] = {label: [first]}
        for system in lexical:
            if system.upper() != label.upper():
                rows[system] = [_lexical(on, system, folder, first, anchors)]
        blanks = {}
        for system in (*neural_rankers, *transformers):
            named = {seed: f"{folder}/{system}_s{seed}" for seed in seeds}
            if system in neural_rankers:
                rows[system] = [on.neural(named[seed], system, run, seed) for seed in seeds]
            else:
                wanted = system in blank
                both = [on.transformer(named[s], run, s, starts[system, s], blank=wanted) for s in seeds]
                rows[system] = [ranked for ranked, _ in both]
                if wanted:
                    blanks[system] = f"{system}_blank"
                    rows[blanks[system]] = [blanked for _, blanked in both]
            if ensembles:
                sums = [on.summed(f"{named[s]}+{folder}", (first, one)) for s, one in zip(seeds, rows[system])]
                rows[f"{system}+{label}"] = sums
            if ensembles and len(seeds) > 1:
                rows[f"{system} ensemble"] = [on.averaged(f"{folder}/{system}_mean", rows[system])]
        if others:
            every = [one for system in transformers for one in rows[system]]
            rows["ensemble"] = [on.averaged(f"{folder}/ensemble", every)]
        if ensembles and len(transformers) > 1:
            rows["all"] = [on.summed(f"{folder}/all", (first, *(rows[system][0] for system in transformers)))]
        baseline = f"harp+{label}" if ensembles else "harp"
        baseline = baseline if "harp" in transformers else label
        on.table(f"{name}_{folder}", rows, baseline, (label, *neural_rankers, *transformers)[-1], blanks, remarks)


def _lexical(on: Prepared, system: str, folder: str, first: Runs, anchors: str) -> Runs:
    """The candidates, re-ranked without neural networks."""
    name = f"{folder}/{system}"
    if system in ("bm25", "ql"):
        return on.lexical(system, name, first[FOLDED])
    if system in ("bm25f", "expanded"):
        return on.lexical("bm25" if system == "expanded" else system, name, first[FOLDED], anchors)
    source = {"anchors": anchors} if system == "inlinks" else {"docs": on.given.docs, "fields": ("body",)}
    prior = {}
    for test in on.tests:
        prior[test] = f"{on.steps.output}/{name}_prior{f'_{test}' if test else ''}.trec"
        prior_files(run=first[test], feature=system, output=prior[test], **source)
    return on.summed(name, (first, prior), normalise="none")
