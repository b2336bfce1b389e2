"""What links add to an encoder's vectors, without a labelled query: a linear map, all weights, or both, on several query sets.

harp plan vectors --output=vectors --set init=all-MiniLM-L6-v2 --set source=linked_pages.jsonl --set docs=collection.jsonl \\
    --set fields=title,body --set queries=one.tsv,two.tsv --set qrels=one.qrels,two.qrels --set rows=map,both,map_titles \\
    --set seeds=0,1,2 --set generation="max_doc_tokens=126,exclude_destinations=judged.txt"

Every row starts from the vectors of `init`, and each ranks the whole collection by its vectors alone. Rows differ in their pairs,
generated once for all rows that share them, or in what is trained. Results: docs/lab/vectors.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import FIELDS
from harp_jax.evaluation.report import Evaluation
from harp_jax.experiments.benchmark import show
from harp_jax.experiments.experiment import check_known, need_files
from harp_jax.experiments.pretraining import Pretraining
from harp_jax.ranking.first_stage import Candidates
from harp_jax.ranking.vectors import vector_files
from harp_jax.training.linear_map import MapOptions, adapt

START = "start"


class Row(NamedTuple):
    """A row's tasks, and further fields of its generation job.

    weights: all weights are trained, with further fields of configs/retriever.py; None: they stay
    mapped: a map is trained, after the weights
    """

    tasks: tuple[str, ...] = ("adp",)
    pairs: Mapping[str, Any] = {}
    weights: Mapping[str, Any] | None = {}
    mapped: bool = True


ANCHORS = {"adp_queries": ("anchor",)}
ROWS: dict[str, Row] = {
    "map": Row(weights=None),
    "weights": Row(mapped=False),
    "both": Row(),
    # Controls that need no link.
    "map_titles": Row(("title",), weights=None),
    "both_titles": Row(("title",)),
    "map_leads": Row(("lead",), weights=None),
    # The words of a query.
    "map_anchors": Row(pairs=ANCHORS, weights=None),
    "both_anchors": Row(pairs=ANCHORS),
    # Negatives, batches and the divergence from the start.
    "no_negatives": Row(weights={"negatives": 0}),
    "large_batch": Row(weights={"batch_pairs": 96, "steps": 50, "learning_rate": 6e-5}),
    "kl_0": Row(weights={"kl_weight": 0.0}),
    "kl_2": Row(weights={"kl_weight": 2.0}),
}
VECTORS = Pretraining(source_config="data/linked_jsonl:recommended", encoder="idf", scale="full", config="retriever")


def vectors(
    output: str,
    pretraining: Pretraining = VECTORS,
    docs: str = "docs.tsv",
    fields: tuple[str, ...] = ("title", "body"),
    queries: tuple[str, ...] = ("queries.tsv",),
    qrels: tuple[str, ...] = ("qrels.txt",),
    measures: str = "RR@10 R@20 R@100",
    passages: int = 1,
    max_length: int = 128,
    rows: tuple[str, ...] = ("map", "weights", "both", "map_titles", "both_titles"),
    seeds: tuple[int, ...] = (0,),
) -> None:
    """What links add to an encoder's vectors, without a labelled query.

    docs: documents, all of which are ranked
    fields: document fields to read
    queries: one file per query set
    qrels: judgments, one file per query set
    measures: measures in the tables; differences in the first one are tested
    passages: maximum passages per document
    max_length: tokens per passage
    rows: rows of the tables
    seeds: random seeds of the map and of the weights
    """
    check_known("rows", rows, tuple(ROWS))
    check_known("fields", fields, FIELDS)
    start = pretraining.init
    if not rows or not seeds or not start or not len(queries) == len(qrels):
        raise InputError("give rows, seeds, the encoder (init), and as many queries as qrels")
    need_files(docs, *queries, *qrels, start, pretraining.pairs)
    steps = Steps(output)
    encoders = {START: [start]} | trained(steps, pretraining, rows, seeds)

    for number, (asked, judged) in enumerate(zip(queries, qrels), 1):
        systems: dict[str, list[str]] = {}
        for row, seeded in encoders.items():
            for seed, encoder in zip(seeds, seeded):
                run = f"{output}/set_{number}/{row}_s{seed}.trec"
                steps(
                    f"Rank set {number} with {row}, seed {seed}", vector_files, Candidates(docs, fields, k=100),
                    model=encoder, queries=asked, output=run, passages=passages, max_length=max_length,
                )  # fmt: skip
                systems.setdefault(row, []).append(run)
        table = Evaluation(
            judged, systems, queries=asked, measures=measures, baseline=START, confirm=measures.split()[0]
        )
        show(table, f"{output}/table_{number}", f"Vectors from links, {asked}")


def trained(steps: Steps, pretraining: Pretraining, rows: Sequence[str], seeds: Sequence[int]) -> dict[str, list[str]]:
    """Row → its encoders, one per seed. Pairs and weights that several rows share are made once, for the first of these."""
    encoders: dict[str, list[str]] = {}
    for name in rows:
        row = ROWS[name]
        with_pairs, with_weights = (next(each for each in rows if ROWS[each][:n] == row[:n]) for n in (2, 3))
        pairs = pretraining.generated(steps, row.tasks, row.pairs, with_pairs)
        for seed in seeds:
            encoder = pretraining.init
            if row.weights is not None:
                changes = {"tasks": row.tasks, **row.weights}
                encoder = pretraining.trained(steps, with_weights, pairs, seed, changes)
            if row.mapped:
                options, encoder = MapOptions(pairs, encoder, seed=seed), f"{steps.output}/{name}_map_s{seed}"
                steps(f"Map of {name}, seed {seed}", adapt, options, encoder)
            encoders.setdefault(name, []).append(encoder)
    return encoders
