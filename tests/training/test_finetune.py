"""Fine-tuning: groups from judgments and candidates, losses of a batch against a loop, rankers that learn, also from a teacher.

Other losses are compared with a loop in tests/objectives.
"""

from functools import partial

import jax
import numpy as np
import pytest
from scipy.stats import chisquare, kendalltau

from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import export_model
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.corpus.trec import Ranking
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.objectives.losses import forward
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS, mask_one_each
from harp_jax.ranking.rerank import rankings
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.step import make_eval
from harp_jax.training.train import train
from tests.support.ranking_collection import ranking_config, scored_batch, units_seen, write_collection


@partial(jax.jit, static_argnums=0)
def packed_scores(ranker, params, batch):
    """[lanes, rows · K]."""
    return forward(ranker, params, batch, None).scores.reshape(2, -1)


def slow_loss(batch, scores: np.ndarray, without: tuple[int, ...] = ()) -> float:
    """Binary cross-entropy of all members of the groups except the numbers `without`; scores: [lanes, rows · K]."""
    each = []
    for by_lane, groups, valid in zip(scores, batch["members"], batch["group_valid"]):
        for members in groups[valid]:
            positive, *negatives = (by_lane[m] for m in np.delete(members, without) if m >= 0)
            each += [-np.log(1 / (1 + np.exp(-positive))), *(-np.log(1 / (1 + np.exp(s))) for s in negatives)]
    assert np.std(each) > 0.01
    return np.mean(each)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return write_collection(tmp_path_factory.mktemp("collection"))


WORTH = {f"d{i}": float(x) for i, x in enumerate(np.random.default_rng(0).normal(0, 3, 40))}


@pytest.fixture
def teacher(tmp_path):
    """A teacher that prefers some documents, whatever the query, and has no scores for d8."""
    known = [f"{docid} 1 {worth} x" for docid, worth in WORTH.items() if docid != "d8"]
    (tmp_path / "teacher.trec").write_text("".join(f"q{i} Q0 {rest}\n" for i in range(40) for rest in known))
    return str(tmp_path / "teacher.trec")


def test_the_loss_equals_a_loop_over_groups(collection):
    stage = finetune_stage(ranking_config(collection))
    params, batch = scored_batch(stage, 16)
    objective = stage.objective
    sums = jax.jit(make_eval(objective, 0))(params, batch)
    scores = np.asarray(packed_scores(objective.ranker, params, batch))
    assert float(sums["loss"]) == pytest.approx(slow_loss(batch, scores), rel=1e-4)
    assert sums["groups"] == batch["group_valid"].sum()


def test_only_the_training_folds_or_queries_are_seen_and_an_epoch_has_every_unit_once(collection, tmp_path):
    stage = finetune_stage(ranking_config(collection))
    assert stage.source.reader.sizes == {"rank": 30}
    groups = [g for lane in range(2) for g in stage.source.reader.read(lane, "rank", 0, 15)]
    assert len({tuple(g.sequences[0].query) for g in groups}) == 30
    assert all(len(g.sequences) == 4 for g in groups)
    (tmp_path / "few").write_text("q3\nq8\tits text\nq7\n")
    for folds, units in ((), 3), (("0", "1", "2"), 1):
        config = ranking_config(collection, train_folds=folds, train_queries=str(tmp_path / "few"))
        assert finetune_stage(config).source.reader.sizes == {"rank": units}


def test_a_student_ranks_the_candidates_of_other_queries_as_its_teacher_does(collection, teacher, tmp_path):
    """The labels (each query's own document) disagree with the teacher."""
    config = ranking_config(collection, rank_loss="kl", teacher=teacher, steps=150, learning_rate=5e-3, negatives=7)
    train(config, str(tmp_path / "run"), devices=jax.devices()[:1])
    model = Reranker.from_pretrained(str(tmp_path / "run"))
    texts = dict(line.split("\t\t\t") for line in (collection / "docs.tsv").read_text().splitlines())
    queries = dict(line.split("\t") for line in (collection / "queries.tsv").read_text().splitlines())
    docids = [docid for docid in WORTH if docid != "d8"]
    found = [
        kendalltau(model.predict([(queries[f"q{i}"], texts[d]) for d in docids]), [WORTH[d] for d in docids]).statistic
        for i in range(3, 40, 4)  # fold 3 is not trained on
    ]
    assert np.mean(found) > 0.8


def test_what_the_teacher_does_not_score_is_left_out_also_beside_masked_queries(collection, teacher):
    config = ranking_config(collection, rank_loss="kl", teacher=teacher, mqp_weight=0.5)
    stage = finetune_stage(config)
    data = stage.source.reader.data
    assert ("q8", "d8") not in data.units and len(data.units) == 29 and data.report["no teacher score"] == 1
    _, batch = scored_batch(stage, 16)
    known = {np.float32(worth / data.scale) for worth in WORTH.values()} | {np.float32(0)}
    assert data.scale == pytest.approx(np.std([w for d, w in WORTH.items() if d != "d8"]))
    assert set(batch["teacher"].ravel()) <= known
    valid = batch["group_valid"]
    np.testing.assert_array_equal(batch["teacher"][valid][:, 0], batch["teacher"][valid][:, 1])  # the masked copy


def test_it_learns_to_rank_and_selection_keeps_the_best_of_all_evaluations(collection, tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.input.ranking_groups.HELD_OUT", 0.3)
    config = ranking_config(collection, select="RR@10", eval_every=50, steps=120, log_every=20, learning_rate=5e-3)
    workdir = str(tmp_path / "run")
    last = train(config, workdir, devices=jax.devices()[:1]).metrics
    trained, rows = ([r for r in read_metrics(workdir) if r["split"] == split] for split in ("train", "validation"))
    assert last["loss"] < trained[0]["loss"] - 0.05 and last["pair_accuracy"] > 0.7
    kept, highest = best(workdir), max(rows, key=lambda row: row["RR@10"])  # the first of equal ones
    assert (kept["step"], kept["queries"]) == (highest["step"], 9) and len(rows) == 4
    export_model(workdir, str(tmp_path / "model"))
    stage = finetune_stage(config)
    selection = stage.select(stage.encoder.padded, str(tmp_path / "again"))
    held_out = {docid for levels in selection.held_out.values() for docid in levels}
    assert not held_out & {docid for _, docid in stage.source.reader.data.units}
    scorer = Reranker.from_pretrained(str(tmp_path / "model")).scorer
    run = {q: Ranking.of(d, s) for q, d, s in rankings(scorer, selection.run, selection.queries, selection.docs)}
    again = evaluate(selection.held_out, {"": run}, "RR@10").mean[""]["RR@10"]
    assert again == pytest.approx(kept["value"], abs=1e-6)
    # A run that starts from this one also uses the selected parameters.
    started, exported = load_encoder(workdir)[1], load_hf(str(tmp_path / "model"))[1]
    jax.tree.map(np.testing.assert_array_equal, {n: started[n] for n in exported}, exported)
    (tmp_path / "run" / "selected" / f"step-{kept['step']}").rename(tmp_path / "moved")
    with pytest.raises(
        InputError, match=r"selection\.json names .*selected/step-\d+, which does not exist; restore it"
    ):
        export_model(workdir, str(tmp_path / "none"))


def test_what_a_training_lacks_is_named(collection, tmp_path):
    (tmp_path / "equal").write_text("".join(f"q{i} Q0 d{j} 1 0.5 x\n" for i in range(40) for j in range(40)))
    for changes, message in (
        ({"select": "RR@10", "eval_every": 5, "select_queries": 0}, "no group of the 30 training queries"),
        ({"train_folds": ("1", "7")}, "has no fold 7; its folds are 0, 1, 2, 3"),
        ({"teacher": str(tmp_path / "equal"), "rank_loss": "kl"}, "the same score"),
    ):
        with pytest.raises(InputError, match=message):
            finetune_stage(ranking_config(collection, **changes))


@pytest.mark.parametrize("lanes, batch_pairs, candidates, negatives", [(1, 32, 20, 3), (4, 8, 20, 3), (2, 32, 3, 7)])
def test_epochs_are_counted_by_batches(collection, tmp_path, caplog, lanes, batch_pairs, candidates, negatives):
    """A lane needs a row for each member of a group, so small batches on many lanes have more pairs than configured. In the last
    case, queries have fewer candidates than the configured negatives. If windows of several epochs were shuffled as one, some
    queries would come twice as often as others."""
    run = (collection / "run.trec").read_text().splitlines(keepends=True)
    (tmp_path / "run.trec").write_text("".join(line for line in run if int(line.split()[3]) <= candidates))
    changes = {"lanes": lanes, "batch_pairs": batch_pairs, "negatives": negatives, "steps": 0, "window": 1024}
    stage = finetune_stage(ranking_config(collection, candidates=str(tmp_path / "run.trec"), epochs=4.0, **changes))
    seen = units_seen(stage)
    assert sum(seen.values()) == pytest.approx(4 * 30, rel=0.15) and len(seen) == 30 and set(seen.values()) <= {3, 4, 5}
    assert ("lower `lanes`" in caplog.text) == (batch_pairs < 32)


def test_masked_query_prediction_hides_one_query_token_of_the_positive(collection):
    """Never its mark: [Q] precedes every query, so predicting it teaches nothing."""
    stage = finetune_stage(ranking_config(collection, mqp_weight=0.5, marks=("w205", "")))
    params = stage.start(stage.encoder.padded, jax.random.key(0))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e3
    batch = scored_batch(stage, 16)[1]
    key = jax.random.key(1, impl="threefry2x32")
    objective = stage.objective
    masked = jax.device_get(objective.mask(batch, key))
    changed, predicted = masked["tokens"] != batch["tokens"], masked[WEIGHTS] > 0
    rows, at, targets = np.nonzero(predicted)[0], masked[POSITIONS][predicted], masked[TARGETS][predicted]
    assert changed.sum() == predicted.sum() == batch["group_valid"].sum()
    assert (batch["token_type_ids"][changed] == 0).all() and (batch["mask_ids"][changed] >= 0).all()
    assert (batch["tokens"][rows, at] == targets).all() and (masked["tokens"][rows, at] == 4).all()
    for number in range(20):
        other = jax.device_get(objective.mask(batch, jax.random.key(number, impl="threefry2x32")))
        assert stage.tokenizer.vocab["w205"] not in other[TARGETS][other[WEIGHTS] > 0]

    sums = jax.jit(make_eval(objective, 1))(params, batch)
    # Expected ranking loss: from the same batch without copies. Prediction loss: from hidden states and the decoder.
    shown = {**batch, "tokens": masked["tokens"]}
    ranking = slow_loss(batch, np.asarray(packed_scores(objective.ranker, params, shown)), (1,))
    hidden = jax.jit(lambda p, b: objective.ranker.apply({"params": p}, b, method="encode"))(params, shown)
    decoder = params["decoder"]
    assert len(decoder["bias"]) > stage.tokenizer.size and (decoder["bias"][stage.tokenizer.size :] < -1e8).all()
    logits = np.asarray(hidden)[rows, at] @ decoder["embedding"].T + decoder["bias"]
    expected = np.mean([np.log(np.exp(x).sum()) - x[t] for x, t in zip(logits, targets)])
    assert float(sums["mlm"] / sums["mlm_tokens"]) == pytest.approx(expected, rel=1e-4)
    assert float(sums["loss"]) == pytest.approx(ranking + 0.5 * expected, rel=1e-4)


def test_the_hidden_query_token_is_uniform():
    at = np.tile(np.arange(8, dtype=np.int32), (3000, 1))
    ids = np.where((at > 0) & (at < 6), at + 8 * np.arange(3000, dtype=np.int32)[:, None], -1)
    batch = {"tokens": at, "segment_ids": np.int32(at < 7)}
    masked = jax.device_get(mask_one_each(jax.random.key(3, impl="threefry2x32"), batch, ids, 4, 0))
    assert (masked[WEIGHTS].sum(1) == 1).all()
    counts = np.bincount(masked[TARGETS][masked[WEIGHTS] > 0], minlength=8)
    assert counts[1:6].sum() == 3000 and chisquare(counts[1:6]).pvalue > 0.01
