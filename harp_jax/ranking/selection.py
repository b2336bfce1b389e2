"""Selects parameters during training: keeps the best by a ranking measure on held-out training queries.

The held-out queries share no relevant document with the rest (`trec.split_queries`). Every evaluation re-ranks their
candidates without adding the relevant documents. They are training queries, never the reported ones.
"""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.recorded import RECORD, SELECTED, best, config_digest
from harp_jax.corpus.trec import ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.measures import one_measure
from harp_jax.input.ranking_groups import RankingDataset
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.ranking.rerank import rankings
from harp_jax.ranking.scorers import PARTS, CrossEncoderScorer, Scorer
from harp_jax.text.tokenizer import Tokenizer, marks_of


class Selection:
    """Called with (parameters, step): returns the measure and, if it is the best so far, saves the parameters in the workdir.
    `make_scorer` builds a scorer from the first parameters (later ones go through `Scorer.use`); `save` writes parameters to a
    directory. A resumed run repeats the evaluations since its last checkpoint, with the same results. Every process calls it."""

    def __init__(
        self,
        config: ConfigDict,
        held_out: RankingDataset,
        workdir: str,
        make_scorer: Callable[[Any], Scorer],
        save: Callable[[str, Any], None],
    ) -> None:
        self.measure = str(one_measure(config.select))
        self.held_out, self.make_scorer, self.save = held_out.qrels, make_scorer, save
        self.workdir, self.directory = workdir, os.path.join(workdir, SELECTED)
        self.depth = config.select_depth
        self.docs = held_out.docs
        # As in training: queries without text or candidates are left out, and count as zero in the measure.
        known = held_out.qrels.keys() & held_out.queries.keys()
        self.run = {qid: ranking for qid, ranking in held_out.candidates.items() if qid in known}
        self.queries = {qid: held_out.queries[qid] for qid in self.run}
        if not self.run:
            raise InputError("no held-out query has candidates; retrieve for all training queries")
        self.scorer: Scorer | None = None

    def __call__(self, params: Any, step: int) -> dict[str, float]:
        if self.scorer is None:
            self.scorer = self.make_scorer(params)
        self.scorer.use(params)
        ranked = list(rankings(self.scorer, self.run, self.queries, self.docs, self.depth))
        value = 0.0
        if any(np.ptp(scores) > 0 for _, _, scores in ranked):
            # Ties keep the first stage's order, so untrained weights of zero would be selected with BM25's value.
            value = evaluate(self.held_out, {"": dict(ordered(ranked))}, [self.measure]).mean[""][self.measure]
        if jax.process_index() == 0 and value > best(self.workdir).get("value", -1.0):
            # The record comes last, so that it always names complete parameters of its own step.
            name = f"step-{step}"
            self.save(os.path.join(self.directory, name), jax.device_get(params))
            record = {"step": step, "measure": self.measure, "value": value, "queries": len(self.held_out)}
            with replacing(os.path.join(self.directory, RECORD)) as file:
                json.dump(record | {"model": name, "config_sha256": config_digest(self.workdir)}, file)
            for other in {*os.listdir(self.directory)} - {name, RECORD}:
                shutil.rmtree(os.path.join(self.directory, other), ignore_errors=True)
        return {self.measure: value}


def selecting(
    config: ConfigDict,
    held_out: RankingDataset,
    scorer: Callable[[EncoderConfig, Any], Scorer],
    save: Callable[[str, EncoderConfig, Any], None],
) -> Callable[[EncoderConfig, str], Selection]:
    """A `Stage.select`: the selection for an encoder's shape and a workdir. InputError for a config that never evaluates.
    `scorer(shape, params)` scores with the first parameters; `save(directory, shape, params)` writes parameters (numpy)."""
    if not config.eval_every:
        raise InputError(f"select={config.select!r} needs evaluations; set --config.eval_every to a number of steps")
    return lambda shape, workdir: Selection(
        config, held_out, workdir, partial(scorer, shape), lambda d, p: save(d, shape, p)
    )


def selecting_ranker(
    config: ConfigDict, tokenizer: Tokenizer, held_out: RankingDataset
) -> Callable[[EncoderConfig, str], Selection]:
    """`selecting` for cross-encoders, saved as Hugging Face directories."""
    marks = marks_of(tokenizer, config.get("marks", ()))

    def scorer(shape: EncoderConfig, params: Any) -> Scorer:
        return CrossEncoderScorer(shape, params, tokenizer, config.row_length, marks=marks)

    def save(directory: str, shape: EncoderConfig, params: Any) -> None:
        save_hf(directory, shape, {name: params[name] for name in PARTS}, tokenizer, "", marks)

    return selecting(config, held_out, scorer, save)
