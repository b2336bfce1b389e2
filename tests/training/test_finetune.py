"""Fine-tuning in the shared loop: groups from judgments and candidates, losses against a loop, a ranker that learns.

Distillation is compared with a loop in tests/objectives; here, students learn from a teacher.
"""

import dataclasses

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
from harp_jax.input.packing import plan
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS, mask_one_each
from harp_jax.ranking.rerank import rankings
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.stage import warn_if_constant
from harp_jax.training.train import train
from tests.support.objective import loss_of
from tests.support.ranking_collection import ranking_config, scored_batch, units_seen


def packed_scores(ranker, params, batch):
    return ranker.apply({"params": params}, batch, method="scored")[0]


def slow_loss(name: str, scores: list[float]) -> list[float]:
    sigma = [1 / (1 + np.exp(-s)) for s in scores]
    if name == "bce":
        return [-np.log(sigma[0]), *(-np.log(1 - s) for s in sigma[1:])]
    if name == "hinge":
        return [max(0.0, 1 - scores[0] + s) for s in scores[1:]]
    if name == "logistic":
        return [np.log(1 + np.exp(s - scores[0])) for s in scores[1:]]
    return [-np.log(np.exp(scores[0]) / np.sum(np.exp(scores)))]


WORTH = {f"d{i}": float(x) for i, x in enumerate(np.random.default_rng(0).normal(0, 3, 40))}


@pytest.fixture
def teacher(tmp_path):
    """A teacher that prefers some documents, whatever the query, and has no scores for d8."""
    known = [f"{docid} 1 {worth} x" for docid, worth in WORTH.items() if docid != "d8"]
    (tmp_path / "teacher.trec").write_text("".join(f"q{i} Q0 {rest}\n" for i in range(40) for rest in known))
    return str(tmp_path / "teacher.trec")


@pytest.mark.parametrize("name", ["bce", "hinge", "logistic", "lce"])
def test_each_loss_equals_a_loop_over_its_groups(collection, name):
    stage = finetune_stage(ranking_config(collection, rank_loss=name))
    params, batch = scored_batch(stage, 16)
    objective = stage.objective(stage.encoder)
    loss, sums = jax.jit(lambda p, b: loss_of(objective, p, b, jax.random.key(0)))(params, batch)
    scores = np.asarray(jax.jit(lambda p, b: packed_scores(objective.ranker, p, b))(params, batch))
    expected = []
    for lane, by_lane in enumerate(scores.reshape(2, -1)):
        for members, valid in zip(batch["members"][lane], batch["group_valid"][lane]):
            if valid:
                expected += slow_loss(name, [float(by_lane[m]) for m in members if m >= 0])
    assert np.std(expected) > 0.01
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-4)
    assert sums["groups"] == batch["group_valid"].sum()


def test_only_the_training_folds_or_queries_are_seen_and_an_epoch_has_every_unit_once(collection, tmp_path):
    stage = finetune_stage(ranking_config(collection))
    assert stage.source.reader.sizes == {"rank": 30}
    groups = [g for lane in range(2) for g in stage.source.reader.read(lane, "rank", 0, 15)]
    assert len({tuple(g.sequences[0].query) for g in groups}) == 30
    assert all(len(g.sequences) == 4 for g in groups)
    assert stage.steps == 10 and finetune_stage(ranking_config(collection, steps=0)).steps == 8
    (tmp_path / "few").write_text("q3\nq8\tits text\nq7\n")
    for folds, units in ((), 3), (("0", "1", "2"), 1):
        config = ranking_config(collection, train_folds=folds, train_queries=str(tmp_path / "few"))
        assert finetune_stage(config).source.reader.sizes == {"rank": units}


def test_every_group_fits_a_batch_whatever_lengths_the_sample_lacks(collection):
    layout = finetune_stage(ranking_config(collection, batch_pairs=2)).source.layout
    longest = [(layout.row_length,) * layout.group_size]
    assert len(list(plan(longest, layout))) == 1


def test_scores_that_do_not_differ_after_warmup_are_warned_of(collection, caplog):
    config = ranking_config(collection, steps=2, warmup=0.5)
    for step, spread in ((1, 1e-5), (2, 0.1), (2, 1e-5)):
        assert not caplog.records
        warn_if_constant(config, step, {"score_spread": spread})
    assert "the scores have collapsed up to step 2: their standard deviation within a group is 1e-05" in caplog.text


def test_a_student_ranks_the_candidates_of_other_queries_as_its_teacher_does(collection, teacher, tmp_path):
    """The labels (each query's own document) disagree with the teacher, so this also shows that fine-tuning learns to rank."""
    config = ranking_config(collection, rank_loss="kl", teacher=teacher, steps=150, learning_rate=5e-3, negatives=7)
    train(config, str(tmp_path / "run"), devices=jax.devices()[:1])
    export_model(str(tmp_path / "run"), str(tmp_path / "model"))
    model = Reranker.from_pretrained(str(tmp_path / "model"))
    texts = dict(line.split("\t\t\t") for line in (collection / "docs.tsv").read_text().splitlines())
    queries = dict(line.split("\t") for line in (collection / "queries.tsv").read_text().splitlines())
    docids = [docid for docid in WORTH if docid != "d8"]
    found = [
        kendalltau(model.predict([(queries[f"q{i}"], texts[d]) for d in docids]), [WORTH[d] for d in docids]).statistic
        for i in range(3, 40, 4)  # fold 3 is not trained on
    ]
    assert np.mean(found) > 0.8


def test_what_the_teacher_does_not_score_is_left_out_also_beside_masked_queries(collection, teacher, caplog):
    config = ranking_config(collection, rank_loss="kl", teacher=teacher, mqp_weight=0.5)
    stage = finetune_stage(config)
    data = stage.source.reader.data
    assert ("q8", "d8") not in data.units and len(data.units) == 29 and data.report["no teacher score"] == 1
    assert "candidates are left out of training: the teacher has no score for them" in caplog.text
    _, batch = scored_batch(stage, 16)
    known = {np.float32(worth / data.scale) for worth in WORTH.values()} | {np.float32(0)}
    assert data.scale == pytest.approx(np.std([w for d, w in WORTH.items() if d != "d8"]))
    assert set(batch["teacher"].ravel()) <= known and batch["teacher"].shape == batch["members"].shape
    valid = batch["group_valid"]
    np.testing.assert_array_equal(batch["teacher"][valid][:, 0], batch["teacher"][valid][:, 1])  # the masked copy


def test_selection_keeps_the_best_of_all_evaluations(collection, tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.input.ranking_groups.HELD_OUT", 0.3)
    config = ranking_config(collection, select="RR@10", eval_every=10, steps=25, learning_rate=5e-3)
    workdir = str(tmp_path / "run")
    train(config, workdir, devices=jax.devices()[:1])
    rows = [r for r in read_metrics(workdir) if r["split"] == "validation"]
    assert [r["step"] for r in rows] == [0, 10, 20, 25]
    found = best(workdir)
    assert found["value"] == pytest.approx(max(r["RR@10"] for r in rows), rel=1e-5)
    assert found["step"] == next(r["step"] for r in rows if r["RR@10"] == max(x["RR@10"] for x in rows))
    assert found["queries"] == 9
    export_model(workdir, str(tmp_path / "model"))
    stage = finetune_stage(config)
    selection = stage.select(stage.encoder, str(tmp_path / "again"))
    held_out = {docid for levels in selection.held_out.values() for docid in levels}
    assert not held_out & {docid for _, docid in stage.source.reader.data.units}
    scorer = Reranker.from_pretrained(str(tmp_path / "model")).scorer
    run = {q: Ranking.of(d, s) for q, d, s in rankings(scorer, selection.run, selection.queries, selection.docs)}
    again = evaluate(selection.held_out, {"": run}, "RR@10").mean[""]["RR@10"]
    assert again == pytest.approx(found["value"], abs=1e-6)
    # A run that starts from this one also uses the selected parameters.
    _, started = load_encoder(workdir)
    _, exported = load_hf(str(tmp_path / "model"))
    jax.tree.map(np.testing.assert_array_equal, {n: started[n] for n in exported}, exported)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"select": "RR@10"}, "needs evaluations"),
        ({"select": "RR@10", "eval_every": 5, "select_queries": 0}, "no group of the 30 training queries"),
        ({"candidates": "q0 Q0 nowhere 1 1.0 x\n"}, "candidate nowhere of query q0"),
        (
            {"teacher": "".join(f"q{i} Q0 d{j} 1 0.5 x\n" for i in range(40) for j in range(40)), "rank_loss": "kl"},
            "the same score",
        ),
        ({"train_folds": (), "train_queries": "q3\nq99\n"}, "1 queries have no judgments, such as q99"),
    ],
)
def test_what_a_training_lacks_is_named(collection, tmp_path, changes, message):
    for name in {"candidates", "train_queries", "teacher"} & changes.keys():
        (tmp_path / name).write_text(changes[name])
        changes = changes | {name: str(tmp_path / name)}
    with pytest.raises(InputError, match=message):
        finetune_stage(ranking_config(collection, **changes))


@pytest.mark.parametrize("lanes, batch_pairs, candidates, negatives", [(1, 32, 20, 3), (4, 8, 20, 3), (2, 32, 3, 7)])
def test_epochs_are_counted_by_what_batches_hold(
    collection, tmp_path, caplog, lanes, batch_pairs, candidates, negatives
):
    """A lane needs a row for each member of a group, so small batches on many lanes have more pairs than configured. In the last
    case, queries have fewer candidates than the configured negatives."""
    run = (collection / "run.trec").read_text().splitlines(keepends=True)
    (tmp_path / "run.trec").write_text("".join(line for line in run if int(line.split()[3]) <= candidates))
    changes = {"lanes": lanes, "batch_pairs": batch_pairs, "negatives": negatives, "steps": 0, "epochs": 4.0}
    stage = finetune_stage(ranking_config(collection, candidates=str(tmp_path / "run.trec"), **changes))
    assert sum(units_seen(stage).values()) == pytest.approx(4 * stage.source.reader.sizes["rank"], rel=0.15)
    assert ("lower `lanes`" in caplog.text) == (batch_pairs < 32)


@pytest.mark.parametrize("lanes", [1, 8])
def test_two_epochs_see_each_query_about_twice(collection, lanes):
    """Windows of several epochs, shuffled as one, would train on some queries six times and never on others."""
    stage = finetune_stage(ranking_config(collection, lanes=lanes, window=1024, batch_pairs=32, steps=0, epochs=2.0))
    seen = units_seen(stage)
    assert len(seen) == 30 and set(seen.values()) <= {1, 2, 3}


def test_masked_query_prediction_hides_one_query_token_of_the_positive(collection):
    """Never its mark: [Q] precedes every query, so predicting it teaches nothing."""
    stage = finetune_stage(ranking_config(collection, mqp_weight=0.5, marks=("w205", "")))
    padded = dataclasses.replace(stage.encoder, vocab_size=stage.tokenizer.size + 3)
    params = stage.start(padded, jax.random.key(0))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e3
    batch = scored_batch(stage, 16)[1]
    key = jax.random.key(1, impl="threefry2x32")
    objective = stage.objective(padded)
    masked = objective.mask(batch, key)
    changed = np.asarray(masked["tokens"]) != batch["tokens"]
    groups = int(batch["group_valid"].sum())
    assert changed.sum() == groups == np.asarray(masked[WEIGHTS]).sum()
    assert (batch["token_type_ids"][changed] == 0).all() and (batch["mask_ids"][changed] >= 0).all()
    rows = np.nonzero(np.asarray(masked[WEIGHTS]))
    at = np.asarray(masked[POSITIONS])[rows]
    assert (batch["tokens"][rows[0], at] == np.asarray(masked[TARGETS])[rows]).all()
    assert (np.asarray(masked["tokens"])[rows[0], at] == 4).all()
    for number in range(20):
        other = objective.mask(batch, jax.random.key(number, impl="threefry2x32"))
        assert stage.tokenizer.vocab["w205"] not in np.asarray(other[TARGETS])[np.asarray(other[WEIGHTS]) > 0]

    loss, sums = jax.jit(lambda p, b: loss_of(objective, p, b, key))(params, batch)
    # Expected ranking loss: from the same batch without copies. Prediction loss: from hidden states and the decoder.
    shown = {**batch, "tokens": masked["tokens"]}
    scores = np.asarray(jax.jit(lambda p, b: packed_scores(objective.ranker, p, b))(params, shown)).reshape(2, -1)
    ranking = []
    for lane, (members, valid) in enumerate(zip(batch["members"], batch["group_valid"])):
        for group, there in zip(members, valid):
            if there:
                ranking += slow_loss("bce", [float(scores[lane][m]) for m in np.delete(group, 1) if m >= 0])
    hidden = jax.jit(lambda p, b: objective.ranker.apply({"params": p}, b, method="encode"))(params, shown)
    decoder = params["decoder"]
    assert len(decoder["bias"]) > stage.tokenizer.size and (decoder["bias"][stage.tokenizer.size :] < -1e8).all()
    logits = np.asarray(hidden)[rows[0], at] @ decoder["embedding"].T + decoder["bias"]
    expected = np.mean([np.log(np.exp(x).sum()) - x[t] for x, t in zip(logits, np.asarray(masked[TARGETS])[rows])])
    assert float(sums["mlm"] / sums["mlm_tokens"]) == pytest.approx(expected, rel=1e-4)
    assert float(loss) == pytest.approx(np.mean(ranking) + 0.5 * expected, rel=1e-4)
    assert stage.source.layout.group_size == 1 + 3 + 1  # the copy, too


def test_the_hidden_query_token_is_uniform():
    ids = np.tile(np.array([[-1, 0, 1, 2, 3, 4, -1, -1]], np.int32), (3000, 1))
    ids = np.where(ids >= 0, ids + 8 * np.arange(3000)[:, None], -1).astype(np.int32)
    segments = np.where(np.arange(8) < 7, 1, 0)[None].repeat(3000, 0).astype(np.int32)
    tokens = np.broadcast_to(np.arange(10, 18, dtype=np.int32), ids.shape)
    batch = {"tokens": tokens, "segment_ids": segments}
    masked = mask_one_each(jax.random.key(3, impl="threefry2x32"), batch, ids, 4, 0)
    assert (np.asarray(masked[WEIGHTS]).sum(1) == 1).all()
    counts = np.bincount(np.asarray(masked[TARGETS])[np.asarray(masked[WEIGHTS]) > 0], minlength=18)[11:16]
    assert counts.sum() == 3000 and chisquare(counts).pvalue > 0.01


def test_learns_to_rank_what_it_has_seen(collection, tmp_path):
    config = ranking_config(collection, steps=120, log_every=20, learning_rate=5e-3)
    last = train(config, str(tmp_path / "run"), devices=jax.devices()[:1]).metrics
    first = read_metrics(str(tmp_path / "run"))[0]
    assert last["loss"] < first["loss"] - 0.05 and last["pair_accuracy"] > 0.7
