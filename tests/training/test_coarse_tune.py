"""Coarse-tuning: the click log, replaced documents, the objective against a loop, fine-tuning after it, and the probe."""

import json
import pickle

import jax
import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.baselines.query_probe import probe_files
from harp_jax.checkpoints.export import export_model
from harp_jax.checkpoints.start import load_encoder
from harp_jax.config import read_config
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.input.ranking_groups import CLICKS
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.losses import forward
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS
from harp_jax.ranking.rerank import load_scorer
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.step import make_eval
from harp_jax.training.train import train
from tests.support.ranking_collection import ranking_config, scored_batch, write_collection
from tests.support.synthetic import tokenizer

MARKS = ("[unused0]", "[unused1]")


@pytest.fixture(scope="module")
def clicked(tmp_path_factory):
    """The collection with a click log (query i has clicks on documents i and i + 1) and a vocabulary with unused tokens."""
    path = write_collection(tmp_path_factory.mktemp("clicks"))
    queries = dict(line.split("\t") for line in (path / "queries.tsv").read_text().splitlines())
    rows = [f"{q}\t{text}\td{(int(q[1:]) + j) % 40}\thttp://x\n" for q, text in queries.items() for j in range(2)]
    (path / "orcas.tsv").write_text("".join(rows) + "q0\tgone\tabsent\thttp://y\n")
    Tokenizer.of_words((*tokenizer().tokens, *MARKS)).save(str(path / "tokenizer"))
    return path


def coarse_config(path, **changes):
    c = configs.coarse_tune()
    c.tokenizer, c.docs, c.clicks = str(path / "tokenizer"), str(path / "docs.tsv"), str(path / "orcas.tsv")
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions, c.model.dropout = 1, 32, 2, 64, 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes, c.sample = 64, 24, 32, 2, 1.0
    c.steps, c.log_every = 8, 4
    c.update_from_flattened_dict(changes)
    return c


def test_the_log_is_sampled_and_a_pair_counts_once(clicked, tmp_path):
    docs = Documents.open(str(clicked / "docs.tsv"))
    log = lambda path, share=1.0, seed=0: Clicks.open(str(path), docs, share, seed)  # noqa: E731
    half = [log(clicked / "orcas.tsv", 0.5, seed) for seed in (0, 1)]
    one, two = ({clicks.pair(i) for i in range(len(clicks))} for clicks in half)
    assert one != two and binomtest(len(one), 80, 0.5).pvalue > 0.01
    rows = ["q1 a d1 u", "q2 b d1 u", "q1 a d1 v", "q1 a gone u", "q2 b d3 u", "q1 a d1 u", "q9 c gone u"]
    (tmp_path / "log").write_text("\n".join(rows).replace(" ", "\t"))
    clicks = pickle.loads(pickle.dumps(log(tmp_path / "log")))  # as in worker processes
    pairs = [clicks.pair(i) for i in range(len(clicks))]
    assert pairs == [("q1", "a", "d1"), ("q2", "b", "d1"), ("q2", "b", "d3")]
    assert clicks.clicked("q2") == {"d1", "d3"}
    (tmp_path / "log").write_text("q1\ta\tnowhere\tu")
    with pytest.raises(InputError, match="no pair is left"):
        log(tmp_path / "log")


def test_half_of_the_pairs_get_another_document_drawn_by_clicks(clicked):
    reader = coarse_tune_stage(coarse_config(clicked)).source.reader
    pairs = reader.pairs
    rows = [(number, *pairs.labelled(epoch, number)) for epoch in range(60) for number in range(80)]
    assert binomtest(sum(label for _, label, _, _ in rows), len(rows), 0.5).pvalue > 0.01
    for number, label, _, docid in rows:
        qid, _, own = pairs.clicks.pair(number)
        assert (docid not in pairs.clicks.clicked(qid)) if label else docid == own
    counts = np.bincount([int(docid[1:]) for _, label, _, docid in rows if label], minlength=40)
    assert chisquare(counts).pvalue > 0.001  # every document has two clicks
    assert pairs.labelled(3, 7) == coarse_tune_stage(coarse_config(clicked)).source.reader.pairs.labelled(3, 7)


def test_an_epoch_has_every_pair_or_document_once(clicked, monkeypatch):
    monkeypatch.setattr("harp_jax.input.ranking_groups.REPLACED", 0.0)
    reader = coarse_tune_stage(coarse_config(clicked)).source.reader
    groups = [g for lane in range(2) for g in reader.read(lane, CLICKS, 0, 40)]
    texts = [(tuple(g.sequences[0].query), tuple(g.sequences[0].document)) for g in groups]
    marks = tuple(reader.tokenizer.vocab[mark] for mark in MARKS)
    assert len(set(texts)) == 80 and {(query[0], document[0]) for query, document in texts} == {marks}
    alone = coarse_tune_stage(coarse_config(clicked, documents_only=True)).source.reader
    texts = [tuple(g.sequences[0].query) for lane in range(2) for g in alone.read(lane, CLICKS, 0, 20)]
    assert len(set(texts)) == 40 and not set(marks) & {i for text in texts for i in text}


def slow_relevance(batch, scores: np.ndarray) -> tuple[list[float], int]:
    """The losses of all groups of one, and how many scores are right; label 0 means relevant."""
    each, right = [], 0
    for by_lane, members, labels in zip(scores.reshape(2, -1), batch["members"][..., 0], batch["group_task"]):
        for member, label in zip(members[members >= 0], labels):
            p = 1 / (1 + np.exp(-by_lane[member]))
            each.append(-np.log(1 - p if label else p))
            right += (p > 0.5) != label
    return each, right


def test_the_loss_is_that_of_a_loop(clicked):
    """With masks as in the paper: masked tokens always become [MASK], and marks are not masked."""
    assert read_config("coarse_tune_orcas").mask_always and not configs.coarse_tune().mask_always
    stage = coarse_tune_stage(coarse_config(clicked, mask_always=True))
    params, batch = scored_batch(stage, 32)
    objective = stage.objective
    key = jax.random.key(1, impl="threefry2x32")
    sums = jax.jit(make_eval(objective, 1))(params, batch)
    masked = objective.mask(batch, key)
    chosen, changed = np.asarray(masked[WEIGHTS]) > 0, np.asarray(masked["tokens"]) != batch["tokens"]
    assert changed.sum() == chosen.sum() > 20 and set(np.asarray(masked["tokens"])[changed]) == {stage.tokenizer.mask}
    assert not np.isin(batch["tokens"][changed], [stage.tokenizer.vocab[mark] for mark in MARKS]).any()
    assert set(batch["token_type_ids"][changed]) == {0, 1}

    @jax.jit
    def every_output(params, shown):
        """Scores and MLM logits without the objective's shortcuts."""
        hidden = objective.ranker.apply({"params": params}, shown, method="encode")
        scores, _ = objective.ranker.apply({"params": params}, shown, method="scored")
        return scores, objective.ranker.apply({"params": params}, hidden, masked[POSITIONS], method="mlm_logits")

    scores, logits = map(np.asarray, every_output(params, {**batch, "tokens": masked["tokens"]}))
    each, _ = slow_relevance(batch, scores)
    assert len(each) == sums["pairs"] and {0, 1} == set(batch["group_task"][batch["members"][..., 0] >= 0])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    mlm = -np.take_along_axis(log_p, np.asarray(masked[TARGETS])[..., None], -1)[..., 0][chosen]
    assert float(sums["loss"]) == pytest.approx(np.mean(each) + np.mean(mlm), rel=1e-4)


def test_fine_tuning_classifies_every_judged_pair_and_needs_no_candidates(clicked, tmp_path):
    """Documents that no first stage retrieved and judged non-relevant ones too; texts and labels from the files."""
    levels = {("q0", "d0"): 1, ("q0", "d5"): 0, ("q1", "d9"): 2, ("q1", "d1"): 0, ("q2", "d2"): -1, ("q2", "d30"): 1}
    judged = {**levels, ("q1", "absent"): 1, ("none", "d3"): 1}
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for (q, d), level in judged.items()))
    given = {"qrels": str(tmp_path / "qrels"), "rank_loss": "judged", "candidates": "", "folds": "", "train_folds": ()}
    stage = finetune_stage(ranking_config(clicked, **given, batch_pairs=6, steps=0, epochs=3.0))
    assert stage.source.reader.sizes == {"rank": 6} and stage.steps == 3
    queries = dict(line.split("\t") for line in (clicked / "queries.tsv").read_text().splitlines())
    docs = {line.split("\t")[0]: line.split("\t")[-1] for line in (clicked / "docs.tsv").read_text().splitlines()}
    groups = [group for lane in range(2) for group in stage.source.reader.read(lane, "rank", 0, 3)]
    decoded = {tuple(map(stage.tokenizer.decode, group.sequences[0][:2])): group.task == 0 for group in groups}
    assert decoded == {(queries[q], docs[d]): level > 0 for (q, d), level in levels.items()}
    params, batch = scored_batch(stage, 3)
    objective = stage.objective
    each, right = slow_relevance(batch, np.asarray(forward(objective.ranker, params, batch, None).scores))
    sums = make_eval(objective, 0)(params, batch)
    np.testing.assert_allclose([sums["loss"], sums["pairs"], sums["right"]], [np.mean(each), 6, right], rtol=1e-4)


@pytest.fixture(scope="module")
def trained(clicked, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("coarse") / "run"
    train(coarse_config(clicked), str(workdir), devices=jax.devices()[:1])
    return workdir


def test_fine_tuning_starts_from_it_with_the_same_marks(clicked, trained, tmp_path):
    changes = {"init": str(trained), "init_head": "pretrained", "marks": MARKS, "tokenizer": ""}
    stage, fresh = (finetune_stage(ranking_config(clicked, **changes | more)) for more in ({}, {"init_head": "fresh"}))
    (group,) = stage.source.reader.read(0, "rank", 0, 1)
    marks = tuple(stage.tokenizer.vocab[mark] for mark in MARKS)
    assert {(int(s.query[0]), int(s.document[0])) for s in group.sequences} == {marks}
    old = load_encoder(str(trained))[1]["score"]["kernel"]
    kept, drawn = (each.start(each.encoder, jax.random.key(0))["score"]["kernel"] for each in (stage, fresh))
    assert (kept == old).all() and (drawn != old).any()
    export_model(str(trained), str(tmp_path / "model"))
    assert load_scorer(str(tmp_path / "model")).marks.ids == marks


def test_the_probe_writes_what_the_head_predicts_at_masks_beside_the_document(clicked, trained, tmp_path):
    inputs = (trained, clicked / "docs.tsv", clicked / "orcas.tsv")
    probe_files(*map(str, inputs), 7, str(tmp_path / "probe.jsonl"))
    first, *others = map(json.loads, (tmp_path / "probe.jsonl").read_text().splitlines())
    assert len(others) == 6
    t, texts = load_tokenizer(str(trained / "tokenizer")), Documents.open(str(clicked / "docs.tsv"))
    query, document = (t.vocab[mark] for mark in MARKS)
    line = np.array([[t.cls, query, t.mask, t.mask, t.mask, t.sep, document, *t.encode(texts[first["id"]]), t.sep]])
    at = np.arange(line.size)[None]
    batch = {"tokens": line, "segment_ids": np.ones_like(line), "position_ids": at, "token_type_ids": np.int32(at >= 6)}
    config, params = load_encoder(str(trained))
    hidden = Ranker(config).apply({"params": params}, batch, method="encode")
    logits = np.asarray(Ranker(config).apply({"params": params}, hidden, np.array([[2, 3, 4]]), method="mlm_logits"))[0]
    best = np.argsort(-logits[:, : t.size], axis=-1)[:, :5]
    assert first["predicted"] == [[t.tokens[i] for i in row] for row in best]
