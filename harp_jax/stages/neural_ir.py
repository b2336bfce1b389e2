"""Training of neural rankers on the shared loop: padded groups instead of packed rows, one objective, given word vectors."""

import dataclasses
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Qrels, read_queries, read_run
from harp_jax.errors import InputError
from harp_jax.input.lanes import epoch_window
from harp_jax.input.packing import Group, Placement
from harp_jax.input.ranking_groups import RankingData, training_qrels
from harp_jax.neural_ir import known_words
from harp_jax.neural_ir.shape import NeuralConfig, WordTables, build, init_params
from harp_jax.objectives.pretrain import Metrics, ranking_loss
from harp_jax.ranking.neural_reranker import NeuralReranker, save_selected, word_tables
from harp_jax.ranking.selection import Selection, held_out
from harp_jax.stages.finetune import RankingReader
from harp_jax.stages.pretrain import NoReader, Stage
from harp_jax.text.words import Words, count_words, load_words, read_stopwords, read_vectors

log = logging.getLogger(__name__)

# Of a dry run, which must not need the documents: what it asks of words is how many there are.
STAND_IN = Words(tuple(f"word{i}" for i in range(30_000)), (1,) * 30_000, 30_000)


@dataclasses.dataclass(frozen=True)
class GroupLayout:
    """A lane's batch: a fixed number of groups, their texts padded with 0 (a `lanes.Layout`)."""

    groups: int  # per lane and microbatch
    group_size: int
    query_length: int
    document_length: int
    microbatches: int = 1  # that a step takes of each lane and accumulates

    def plan(self, lengths: list[tuple[int, ...]]) -> Iterator[list[Placement]]:
        """So many groups a batch, in order; the last batch of a window may have fewer."""
        for start in range(0, len(lengths), self.groups):
            yield [Placement(i, ()) for i in range(start, min(start + self.groups, len(lengths)))]

    def fill(self, groups: list[Group], placements: list[Placement], lane: int) -> dict[str, np.ndarray]:
        """query [groups, Lq], tokens [groups·size, Ld] int32: documents, the relevant one first; present [groups, size] bool.

        With several microbatches all arrays have them as their first axis (`lanes.Batches` stacks them).
        """
        query = np.zeros((self.groups, self.query_length), np.int32)
        documents = np.zeros((self.groups, self.group_size, self.document_length), np.int32)
        present = np.zeros((self.groups, self.group_size), bool)
        for row, placement in enumerate(placements):
            for member, sequence in enumerate(groups[placement.group].sequences):
                assert sequence.document is not None
                query[row, : len(sequence.query)] = sequence.query
                documents[row, member, : len(sequence.document)] = sequence.document
                present[row, member] = True
        return {"query": query, "tokens": documents.reshape(-1, self.document_length), "present": present}


class GroupReader(RankingReader):
    """Groups of a relevant document and negatives, each text cut to its own length."""

    def __init__(self, config: ConfigDict, words: Words, qrels: Qrels) -> None:
        data = RankingData(
            docs=Documents.open(config.docs, tuple(config.fields)),
            queries=read_queries(config.queries),
            qrels=qrels,
            candidates=read_run(config.candidates, queries=qrels),
            tokenizer=words,
            negatives=config.negatives,
            max_length=config.row_length,
            seed=config.seed,
            missed_positives=config.missed_positives,
        )
        check_words(words, data, config.row_length)
        super().__init__(config, data)
        self.query_length = config.model.query_length

    def cut(self, query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return query[: self.query_length], document[: self.length]


@dataclasses.dataclass(frozen=True)
class NeuralRank:
    """A ranking loss over each group's scores; an objective as `step.make_step` takes it."""

    ranker: Any  # the Linen module
    tables: WordTables
    rank_loss: str
    margin: float

    def counts(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Metrics:
        """What the losses are averaged over: groups, their members, their negatives. They add up over microbatches."""
        present = batch["present"]
        return {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}

    def __call__(
        self,
        params: Mapping,
        batch: dict[str, jax.Array],
        mask_key: jax.Array,
        dropout_key: jax.Array | None,
        counts: Metrics | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """Loss (float32 scalar) and metric sums; without a dropout key nothing is dropped.

        With the `counts` of a whole batch, a microbatch's loss is its share of the batch's.
        """
        counts = self.counts(batch, mask_key) if counts is None else counts
        groups, size = batch["present"].shape
        documents = batch["tokens"]
        query = jnp.repeat(batch["query"], size, axis=0)
        rngs = {} if dropout_key is None else {"dropout": dropout_key}
        scores = self.ranker.apply(
            {"params": params}, query, documents, self.tables, deterministic=dropout_key is None, rngs=rngs
        )
        members = scores.reshape(groups, size)
        loss, metrics = ranking_loss(self.rank_loss, self.margin, members, batch["present"], counts)
        metrics["tokens"] = (documents > 0).sum().astype(jnp.float32)
        metrics["slots"] = jnp.asarray(documents.size, jnp.float32)
        return loss, metrics


def neural_ir(config: ConfigDict, with_data: bool = True) -> Stage:
    """The stage that `config.stage == "neural_ir"` names. Raises InputError for bad config or data.

    Without data, for a dry run, neither documents nor vectors are read: words stand in for a vocabulary that is not there,
    and vectors have `model.dimension` numbers.
    """
    check(config)
    known = os.path.isfile(os.path.join(config.tokenizer, "words.json"))
    words = vocabulary(config) if with_data or known else STAND_IN
    given = read_vectors(config.vectors, words, config.seed) if config.vectors and with_data else None
    options = config.model.to_dict() | {"document_length": config.row_length}
    if given is not None:
        options["dimension"] = given[0].shape[1]
        log.info("%d of %d words have a vector in %s", given[1], len(words.words), config.vectors)
    shape = NeuralConfig(vocab_size=words.size, **options)
    frozen = shape.name == "drmm" or not shape.train_vectors
    if config.weight_decay and frozen:
        raise InputError("weight_decay would shrink word vectors that are not trained; set it to 0")
    if frozen and not config.vectors and shape.name != "duet":
        log.warning(
            "the word vectors are random and are not trained: their cosines say nothing beyond exact matches; give trained "
            "ones by --config.vectors (python -m harp_jax.text.word_vectors)"
        )
    tables, groups = word_tables(shape, words), lane_groups(config)
    reader: Any = NoReader(("rank",))
    selection: Callable[[NeuralConfig, str], Selection] | None = None
    if with_data:
        reader, selection = read_data(config, words)
    steps = config.steps or math.ceil(
        config.epochs * reader.sizes["rank"] / (groups * config.lanes * config.accumulate)
    )

    def objective(padded: NeuralConfig) -> NeuralRank:
        return NeuralRank(build(padded), tables, config.rank_loss, config.margin)

    def start(padded: NeuralConfig, key: jax.Array) -> dict:
        params = jax.device_get(jax.jit(lambda k: init_params(padded, k))(key))
        if given is not None and "vectors" in params:
            table = np.zeros_like(params["vectors"])
            table[: words.size] = given[0]
            params["vectors"] = table
        return params

    layout = GroupLayout(groups, 1 + config.negatives, shape.query_length, shape.document_length, config.accumulate)
    window = config.window
    if with_data:
        window = epoch_window(window, reader.sizes["rank"], config.lanes, groups * config.accumulate)
    return Stage(
        words, shape, ("rank",), objective, reader, None, layout, {"rank": 1.0}, steps, start, selection, window
    )


def check(config: ConfigDict) -> None:
    """Raises InputError for numbers out of range, and for options that neural rankers have no use for."""
    for name in ("lanes", "accumulate", "window", "batch_pairs", "negatives"):
        if config[name] < 1:
            raise InputError(f"{name}={config[name]}: give 1 or more")
    if config.steps < 0 or (not config.steps and config.epochs <= 0):
        raise InputError(f"steps={config.steps}, epochs={config.epochs}: give a number of steps, or of epochs")
    unused = {
        "init": "neural rankers start from scratch, or from word vectors (config.vectors)",
        "rows": "their batches are counted in pairs (config.batch_pairs)",
        "vectors": "DUET reads n-graphs and no word vectors" if config.model.name == "duet" else "",
    }
    for name, why in unused.items():
        if config[name] and why:
            raise InputError(f"{name}={config[name]!r}: {why}; leave the option out")
    if config.dtype != "float32":
        raise InputError(f"dtype={config.dtype!r}: neural rankers compute in float32; leave the option out")


def lane_groups(config: ConfigDict) -> int:
    """Groups that a lane gives to a microbatch. InputError where a window is no whole number of batches: one would be cut."""
    groups = max(1, round(config.batch_pairs / config.negatives / config.lanes / config.accumulate))
    whole = groups * config.accumulate
    if config.window % whole:
        raise InputError(
            f"window={config.window}: a lane takes {whole} groups a step (batch_pairs / negatives / lanes), and its windows "
            f"must hold whole steps; set --config.window={whole * math.ceil(config.window / whole)}"
        )
    return groups


def read_data(config: ConfigDict, words: Words) -> tuple[GroupReader, Callable[[NeuralConfig, str], Selection] | None]:
    """The groups to train on, and what selects the parameters (None where nothing does)."""
    if not config.select:
        return GroupReader(config, words, training_qrels(config)), None
    train, kept_back = held_out(config)

    def selection(shape: NeuralConfig, workdir: str) -> Selection:
        def reranker(params: Any) -> NeuralReranker:
            return NeuralReranker(shape, params, words)

        return Selection(config, kept_back, workdir, reranker, save_selected)

    return GroupReader(config, words, train), selection


def check_words(words: Words, data: RankingData, length: int) -> None:
    """Warns where the vocabulary knows less than half of the training texts; InputError where it knows hardly a word."""
    queries = dict.fromkeys(qid for qid, _ in data.units)
    # Of each query a relevant document and a candidate: candidates of one query alone are much alike.
    docids = (docid for qid, positive in data.units for docid in (positive, data.candidates[qid].docids[0]))
    texts = {
        "training queries": (data.queries[qid] for qid in queries),
        "documents to train on": (data.docs[docid] for docid in docids),
    }
    remedy = "make one of these documents (python -m harp_jax.text.words), or leave --config.tokenizer out"
    for note in known_words.check(words, texts, length, known_words.FEW, remedy):
        log.warning(note)


def vocabulary(config: ConfigDict) -> Words:
    """The words of `config.tokenizer`, or of the documents where it is empty."""
    if config.tokenizer:
        return load_words(config.tokenizer)
    if not config.docs:
        raise InputError("docs is empty; set --config.docs to a file")
    texts = Documents.open(config.docs, tuple(config.fields)).texts()
    return count_words(texts, config.stemmer, stopwords=read_stopwords(config.stopwords))
