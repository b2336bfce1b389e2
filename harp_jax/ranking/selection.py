"""Selection of parameters while a ranker trains: the best by a ranking measure on held-out training queries are kept.

The held-out queries share no relevant document with the rest (`folds.split_queries`). Their candidates are re-ranked as they
are, nothing added, at every evaluation. Never the queries that are reported.
"""

import json
import os
import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.checkpoints.selected import DIRECTORY, RECORD, best
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import split_queries
from harp_jax.corpus.trec import Qrels, ordered, read_queries, read_run
from harp_jax.errors import InputError
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.measures import parse_measures
from harp_jax.files import replacing
from harp_jax.input.ranking_groups import training_qrels
from harp_jax.ranking.rerank import rerank_run


def held_out(config: ConfigDict) -> tuple[Qrels, Qrels]:
    """(judgments to train on, judgments to select by): no relevant document is shared. InputError where that cannot be."""
    if not config.eval_every:
        raise InputError(f"select={config.select!r} needs evaluations; set --config.eval_every to a number of steps")
    qrels = training_qrels(config)
    fraction = min(config.select_fraction, config.select_queries / max(len(qrels), 1))
    train, kept_back = split_queries(qrels, fraction, config.seed)
    if not kept_back:
        raise InputError(
            f"no group of the {len(qrels)} training queries is small enough to be held out ({fraction:.2f} of them); "
            "raise select_fraction, or set --config.select=''"
        )
    return train, kept_back


class Selection:
    """Called with (parameters, step): the measure, and the parameters written to the workdir where it is the best so far.

    `reranker` makes of parameters what ranks with them (`Reranker`, `NeuralReranker`), `save` writes them to a directory.
    A killed run repeats what it evaluated after its last checkpoint, with the same result. Takes part on every process.
    """

    def __init__(
        self,
        config: ConfigDict,
        held_out: Qrels,
        workdir: str,
        reranker: Callable[[Any], Any],
        save: Callable[[str, Any], None],
    ) -> None:
        measures = parse_measures(config.select)
        if len(measures) != 1:
            raise InputError(f"select={config.select!r}: name one measure")
        self.measure = str(measures[0])
        self.held_out, self.make_reranker, self.save = held_out, reranker, save
        self.directory = os.path.join(workdir, DIRECTORY)
        self.depth = config.select_depth
        self.docs = Documents.open(config.docs, tuple(config.fields))
        queries = read_queries(config.queries)
        run = read_run(config.candidates, queries=held_out)
        # As in training: what has no text or no candidates is left out, and counts as zero in the measure.
        self.run = {qid: ranking for qid, ranking in run.items() if qid in queries}
        self.queries = {qid: queries[qid] for qid in self.run}
        if not self.run:
            raise InputError(
                f"no held-out query has candidates in {config.candidates}; retrieve for all training queries"
            )
        self.reranker: Any = None

    def __call__(self, params: Any, step: int) -> dict[str, float]:
        if self.reranker is None:
            self.reranker = self.make_reranker(params)
        self.reranker.use(params)
        ranked = list(rerank_run(self.reranker, self.run, self.queries, self.docs, self.depth))
        value = 0.0
        if any(np.ptp(scores) > 0 for _, _, scores in ranked):
            # Ties keep the order of the first stage: untrained weights of zero would be selected for what BM25 did.
            value = evaluate(self.held_out, {"": dict(ordered(ranked))}, [self.measure]).mean[""][self.measure]
        if jax.process_index() == 0 and value > best(self.directory).get("value", -1.0):
            self._keep(params, step, value)
        return {self.measure: value}

    def _keep(self, params: Any, step: int, value: float) -> None:
        """The record appears last and names what it belongs to, so it never names parameters of another step."""
        name = f"step-{step}"
        self.save(os.path.join(self.directory, name), jax.device_get(params))
        with replacing(os.path.join(self.directory, RECORD)) as file:
            record = {"step": step, "measure": self.measure, "value": value, "queries": len(self.held_out)}
            json.dump({**record, "model": name}, file)
        for other in os.listdir(self.directory):
            if other not in (name, RECORD):
                shutil.rmtree(os.path.join(self.directory, other), ignore_errors=True)
