"""Trains LinkLearn on hyperlinks.

Stochastic descent of the constraints' cost. Number of steps, hidden units and learning rate are selected on the artificial
retrieval task, as in the paper: each validation document is a query, the documents linked with it are relevant. Tuned Okapi, and
Ranking SVM if configured, are measured on the same task. Writes model.json (for `harp linklearn-rank`) and metrics.jsonl. One
process; a killed run starts over.

The paper's cost is a sum over documents and all their constraints (Eq. 6 and 7),
Σ_d Σ_{l⁺ ∈ L(d)} Σ_{l⁻ ∉ L(d)} |1 - sim(d, l⁺) + sim(d, l⁻)|₊, in which a document counts in proportion to its links. Here a step
draws documents uniformly, and for each one linked and `negatives` unlinked documents. This minimises the sum of the documents'
means, Σ_d 1 / (|L(d)|·|L̄(d)|) Σ Σ |…|₊: all documents count equally, and hubs do not dominate.
"""

import contextlib
import itertools
import json
import logging
import os
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUMS, replacing, write_sums
from harp_jax.base.progress import progress
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn import model as f
from harp_jax.baselines.linklearn.links import GraphSplit, read_graph, shared_terms, split
from harp_jax.config import FIELDS, check_values
from harp_jax.objectives.losses import PAIRWISE
from harp_jax.training.recorded import recorded
from harp_jax.training.workdir import MetricsLog

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger(__name__)

BATCH = 32  # documents d per step, each with one linked document and `negatives` unlinked ones: 480 constraints
PATIENCE = 8  # stop after this many evaluations without improvement
TRAINED_ON = 0.5  # share of the documents; links between training and held-out documents are dropped
EVAL_QUERIES = 150  # held-out documents whose links are ranked
EVAL_DOCUMENTS = 20_000  # maximum number of held-out documents to rank
# Values of Okapi to try.
K_GRID = (0.0, 0.1, 0.2, 0.4, 0.6, 0.9, 1.2, 1.6, 2.0, 3.0)
B_GRID = (0.0, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0)

Best = tuple[f.LinkLearn, dict[str, Any]]  # a model and its figures


@recorded
def train(config: ConfigDict, output: str) -> dict[str, Any]:
    """Trains once and writes OUTPUT/model.json; returns its figures. Raises InputError for bad config or data."""
    check_values(config, FIELDS["linklearn"])
    if not config.docs:
        raise InputError("docs is empty; set --config.docs to linked documents (JSONL)")
    if min(config.hidden, default=0) < 1 or min(config.learning_rates, default=0.0) <= 0:
        raise InputError("--config.hidden and learning_rates: give at least one value of each, all above 0")
    graph = read_graph(tuple(config.docs), tuple(config.redirects), config.language)
    training, validation = split(graph, TRAINED_ON, config.seed)
    task = Task(validation, EVAL_QUERIES, EVAL_DOCUMENTS, config.seed)
    log.info(
        "%d documents, %d links in training, %d in validation; %d queries on %d documents",
        graph.counts.shape[0], len(training.edges) // 2, len(validation.edges) // 2, len(task.queries), len(task.rows),
    )  # fmt: skip

    # LinkLearn with all hidden units and learning rates; those that diverge are left out.
    os.makedirs(output, exist_ok=True)
    models: list[Best] = []
    failed: list[InputError] = []
    with contextlib.closing(MetricsLog(output, -1)) as metrics:
        for hidden, rate in itertools.product(config.hidden, config.learning_rates):
            try:
                models.append(descend(training, task, config, hidden, rate, metrics))
            except InputError as error:
                log.warning("hidden=%d, learning rate %g: %s", hidden, rate, error)
                failed.append(error)
    if not models:
        raise failed[-1]
    model, best = max(models, key=lambda one: one[1]["held_out"]["linklearn"])

    # Okapi tuned on the same links. Ties: the first. K ends at 0, B at 0 and 1.
    grid = [f.Okapi(k, b) for k, b in itertools.product(K_GRID, B_GRID)]
    precisions = [task.average_precision(o) for o in progress(grid, unit="settings", desc="Okapi")]
    okapi, best["held_out"]["okapi"] = grid[int(np.argmax(precisions))], max(precisions)
    if okapi.k == max(K_GRID):
        log.warning("Okapi's best K is the largest tried (%s): the baseline may be too weak", okapi)

    # Ranking SVM's metric, learned from the same links.
    if config.ranking_svm_constraints:
        vectors = unit_vectors(graph.counts, f.idf(graph.counts[training.documents]))
        rng = generator(config.seed, "ranking svm")
        d, positive, negative = training.draw(rng, config.ranking_svm_constraints, 1, config.negatives_from)
        weights = solve(vectors[d], vectors[positive], vectors[negative[:, 0]])
        scores = ((d, -distances(weights, vectors[[d]], vectors[task.rows])) for d in task.queries.tolist())
        best["held_out"]["ranking_svm"] = float(np.mean([task.precision(d, of_d) for d, of_d in scores]))

    with contextlib.suppress(FileNotFoundError):  # a kill before the new sums leaves no wrong ones
        os.remove(os.path.join(output, SUMS))
    with replacing(os.path.join(output, f.MODEL)) as file:
        params = jax.tree.map(lambda x: np.asarray(x).tolist(), model.params)
        linklearn = {"scale": model.scale, "params": params}
        json.dump(best | {"linklearn": linklearn, "okapi": asdict(okapi)}, file, indent=1)
    write_sums(output, [f.MODEL])
    return best


class Task:
    """The artificial retrieval task on one part of the graph: documents as queries, their linked documents relevant.

    Queries and distractors are sampled; a query's candidates are the documents from the same sources as its relevant ones, except
    those of its own article.
    """

    def __init__(self, data: GraphSplit, queries: int, documents: int, seed: int) -> None:
        rng = generator(seed, "linklearn task")
        self.data, self.counts = data, data.graph.counts
        self.queries = rng.permutation(data.queries)[:queries]
        relevant = np.unique(np.concatenate([data.linked(d) for d in self.queries]))
        others = rng.permutation(np.setdiff1d(data.documents, relevant))[: max(0, documents - len(relevant))]
        self.rows = np.sort(np.concatenate([relevant, others]))  # the documents to rank
        self.index = f.Index(self.counts[self.rows])

    def average_precision(self, weighting: f.Weighting) -> float:
        """Mean average precision of the queries."""
        self.index.weigh(weighting)
        words = ((d, f.words_of(self.counts, d)) for d in self.queries)
        return float(np.mean([self.precision(d, self.index.similarities(*own)) for d, own in words]))

    def precision(self, d: int, scores: np.ndarray) -> float:
        """Average precision of scores [documents of the index] for query d; ties in the order of the collection."""
        graph, linked, rows = self.data.graph, self.data.linked(d), self.rows
        candidate = np.isin(graph.source[rows], graph.source[linked]) & (graph.article[rows] != graph.article[d])
        order = np.argsort(-np.where(candidate, scores, -np.inf), kind="stable")
        ranks = 1 + np.flatnonzero(np.isin(rows[order], linked))
        return float(np.mean(np.arange(1, len(ranks) + 1) / ranks))


def cost(params: dict, batch: dict[str, jax.Array], negatives: int, pair_loss: str) -> tuple[jax.Array, jax.Array]:
    """Mean cost of a batch's constraints, and the share of satisfied ones. Of each document the pair with l⁺ comes first, then
    those with its negatives. `pair_loss` is "hinge" (Eq. 7) or "logistic" (RankNet, Eq. 9, p = 1)."""
    sims = f.similarities(params, batch).reshape(-1, 1 + negatives)
    each = PAIRWISE[pair_loss](sims[:, :1], sims[:, 1:])
    return each.mean(), (sims[:, :1] > sims[:, 1:]).mean()


def descend(
    data: GraphSplit, task: Task, config: ConfigDict, hidden: int, learning_rate: float, metrics: MetricsLog
) -> Best:
    """Trains until average precision has not risen for PATIENCE evaluations; returns the best model and its figures.

    Raises InputError at the first evaluation with a loss or a parameter that is not finite.
    """
    c, counts = config, data.graph.counts
    lengths, own = f.lengths_of(counts), counts[data.documents]
    idf = f.idf(own)
    scale = f.scales(tf=own.data, idf=idf[own.indices], length=lengths[data.documents])
    scaled = f.LinkLearn({}, scale).scaled
    rng = generator(c.seed, "linklearn constraints")

    def batch() -> dict[str, np.ndarray]:
        """The input of `model.similarities` for BATCH drawn documents."""
        d, positive, negative = data.draw(rng, BATCH, c.negatives, c.negatives_from)
        a = np.repeat(d, 1 + c.negatives)
        b = np.concatenate([positive[:, None], negative], axis=1).reshape(-1)
        pair, term, tf_a, tf_b = shared_terms(counts, a, b)
        # Padded to the next power of two, for few static shapes.
        room = (1 << max(10, int(len(pair) - 1).bit_length())) - len(pair)
        words = {"tf_a": scaled("tf", tf_a), "tf_b": scaled("tf", tf_b), "idf": scaled("idf", idf[term])}
        padded = {name: np.pad(x, (0, room)) for name, x in words.items()}
        padded["pair"] = np.pad(pair, (0, room), constant_values=len(a)).astype(np.int32)
        return padded | {"length_a": scaled("length", lengths[a]), "length_b": scaled("length", lengths[b])}

    params, optimizer = f.init_params(c.seed, hidden), optax.adam(learning_rate)
    opt_state = optimizer.init(params)

    @jax.jit
    def step(params: dict, opt_state: optax.OptState, batch: dict) -> tuple[dict, optax.OptState, jax.Array]:
        gradient = jax.value_and_grad(partial(cost, negatives=c.negatives, pair_loss=c.pair_loss), has_aux=True)
        (loss, right), grads = gradient(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, jnp.stack([loss, right])

    best, highest, at = f.LinkLearn(jax.device_get(params), scale), -1.0, -1
    setting = {"hidden": hidden, "learning_rate": learning_rate}
    pending: list[jax.Array] = []
    with progress(total=c.steps, unit="steps", desc="LinkLearn") as bar:
        for number in range(c.steps + 1):
            if number % c.eval_every == 0 or number == c.steps:
                model = f.LinkLearn(jax.device_get(params), scale)
                sums = np.mean(jax.device_get(pending), axis=0) if pending else np.zeros(2)
                # NaN scores would leave the documents in collection order, which can be a good ranking.
                if not all(np.isfinite(leaf).all() for leaf in (sums, *jax.tree.leaves(model.params))):
                    wrong = f"step {number}: the loss or a parameter is not finite"
                    raise InputError(f"{wrong}; lower learning_rates={learning_rate}")
                value, drawn, pending = task.average_precision(model), number * BATCH * c.negatives, []
                measured = {"average_precision": value, "constraints": drawn, **setting}
                measured |= {"loss": float(sums[0]), "pair_accuracy": float(sums[1])} if number else {}
                metrics.write(number, measured, "validation")
                if value > highest:
                    best, highest, at = model, value, number
                elif number - at >= PATIENCE * c.eval_every:
                    break
                bar.set_postfix(ap=f"{value:.4f}", refresh=False)
            if number < c.steps:
                params, opt_state, sums = step(params, opt_state, batch())
                pending.append(sums)
                bar.update(1)
    return best, {"step": at, "constraints": drawn, "held_out": {"linklearn": highest}, **setting}


def unit_vectors(counts: "csr_array", idf: np.ndarray) -> "csr_array":
    """Texts as rows of (1 + log tf)·idf with length 1 [texts, V]; idf [V]."""
    data = (1.0 + np.log(counts.data)) * idf[counts.indices]
    owner = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    norm = np.maximum(np.sqrt(np.bincount(owner, data**2, minlength=counts.shape[0])), 1e-12)
    return type(counts)((data / norm[owner], counts.indices, counts.indptr), counts.shape)


def solve(a: "csr_array", b: "csr_array", c: "csr_array", cost: float = 1.0) -> np.ndarray:
    """Ranking SVM (Schultz and Joachims, 2003) with a diagonal metric: d_w(x, y)² = Σ_i w_i (x_i - y_i)², w ≥ 0 (Eq. 8).

    Returns the weights [V] that minimise ½‖w‖² + cost·Σ max(0, 1 - (d_w(a, c)² - d_w(a, b)²))² over rows of CSR matrices, with a
    warning if the minimum is not reached.

    The papers' slacks are linear (C·Σ ξ); squared ones make the problem smooth, so that scipy's L-BFGS-B solves it within its
    bounds. They penalise large violations more, and C is not comparable with the papers'.
    """
    from scipy.optimize import Bounds, minimize

    gaps = (a - c).power(2) - (a - b).power(2)
    transposed = gaps.T.tocsr()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        slack = np.maximum(0.0, 1.0 - gaps @ w)
        return 0.5 * w @ w + cost * slack @ slack, w - 2.0 * cost * (transposed @ slack)

    start, options = np.ones(gaps.shape[1]), {"maxiter": 15_000}
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=Bounds(0.0), options=options)
    if not solution.success:
        log.warning("Ranking SVM stopped after %d iterations before its minimum: %s", solution.nit, solution.message)
    return solution.x


def distances(weights: np.ndarray, query: "csr_array", documents: "csr_array") -> np.ndarray:
    """d_w(query, document)² [documents] of one row against many."""
    squares = documents.power(2) @ weights
    return query.power(2).dot(weights)[0] - 2.0 * (documents.multiply(weights) @ query.T).toarray()[:, 0] + squares
