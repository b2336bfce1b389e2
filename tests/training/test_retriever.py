"""Training of vectors: from pair records to an export with the same vectors, resume, a planted signal, and bad input."""

import dataclasses
import os
import shutil
from typing import ClassVar

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

import harp_jax as hj
from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import load_hf, save_vectors
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.checkpoints.sentence_transformers import Embedding, embedding_of
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Group
from harp_jax.model.encoders.table import ENCODERS
from harp_jax.text.tokenizer import SPECIAL_TOKENS
from harp_jax.training.dry_run import dry_run
from harp_jax.training.stages.retriever import check_vectors, retriever_stage, with_identities
from harp_jax.training.stages.stage import HeldOut
from harp_jax.training.train import train
from tests.support.planted_pairs import bridge
from tests.support.ranking_collection import judged, write_collection
from tests.support.shards_fixture import write_job
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import random_params, save_encoder
from tests.support.tiny_run import losses, same_parameters

WORDS = np.arange(len(SPECIAL_TOKENS), 205)
PROMPTS = ("w1 w2 ", "w3 ")
TEXTS = ["w7 w8 w9", "w40", " ".join(f"w{i}" for i in range(60)), "w9 w8 w7 w7"]


def settings(directory, **changes: object) -> ConfigDict:
    """An encoder of 1 × 32 from scratch on the synthetic vocabulary."""
    c = configs.retriever()
    c.tokenizer = os.path.join(directory, "tokenizer")
    tokenizer().save(c.tokenizer)
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 1, 32, 2, 64
    c.tasks, c.pooling, c.kl_weight = ("qdm",), "mean", 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes = 48, 16, 64, 2
    c.steps, c.log_every, c.checkpoint_every, c.learning_rate = 6, 1, 3, 1e-3
    c.update_from_flattened_dict(changes)
    return c


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> str:
    directory = str(tmp_path_factory.mktemp("pairs"))
    write_job(directory, {"qdm": [70, 50]}, validation=[20])
    return directory


@pytest.fixture(scope="module")
def workdir(pairs, tmp_path_factory) -> str:
    """Training in two microbatches of a batch, with evaluation, selection by judged queries, and prompts."""
    root = tmp_path_factory.mktemp("run")
    changes = {"accumulate": 2, "select": "RR@10", "eval_every": 3, "eval_batches": 2, "prompts": PROMPTS}
    config = settings(root, data=(pairs,), **changes, **judged(write_collection(root)))
    train(config, str(root / "run"), devices=jax.devices()[:1])
    return str(root / "run")


@pytest.fixture(scope="module")
def exported(workdir, tmp_path_factory) -> str:
    output = str(tmp_path_factory.mktemp("exported") / "vectors")
    hj.export_model(workdir, output)
    return output


def test_it_learns_logs_what_its_batches_compare_and_keeps_the_vectors_that_rank_best(workdir, exported):
    rows = read_metrics(workdir)
    trained, validation = ([row for row in rows if row["split"] == split] for split in ("train", "validation"))
    assert trained[-1]["loss"] < trained[0]["loss"] and trained[-1]["mfu"] > 0 and len(validation) == 3
    assert all(row["negatives"] > 20 and row["cosine_spread"] > 1e-3 for row in trained)
    kept = best(workdir)
    assert kept["value"] == pytest.approx(max(row["RR@10"] for row in validation), rel=1e-5)
    selected, out = (load_hf(path)[1]["encoder"] for path in (kept["model"], exported))
    jax.tree.map(np.testing.assert_array_equal, selected, out)
    vectors = [hj.Retriever.from_pretrained(path).encode(TEXTS) for path in (workdir, exported)]
    np.testing.assert_array_equal(*vectors)


def test_resumed_from_a_checkpoint_it_ends_with_the_same_bits_and_a_mesh_has_the_same_losses(pairs, exported, tmp_path):
    """With a frozen start, which keeps its bits."""
    changes = {"kl_weight": 0.5, "both_directions": True, "weight_decay": 0.1, "accumulate": 2, "lanes": 4}
    config = settings(tmp_path, data=(pairs,), init=exported, tokenizer="", **changes)
    whole, again, eight = (str(tmp_path / name) for name in ("whole", "again", "eight"))
    train(config, whole, devices=jax.devices()[:1])
    shutil.copytree(whole, again)
    shutil.rmtree(os.path.join(again, "checkpoints", "6"))
    train(config, again, devices=jax.devices()[:1])
    assert losses(again) == losses(whole) and same_parameters(again, whole)
    start, first = load_params(whole)[0]["start"]["encoder"], load_hf(exported)[1]["encoder"]
    jax.tree.map(np.testing.assert_array_equal, start["layer_0"], first["layer_0"])
    config.mesh.data = config.mesh.fsdp = config.mesh.model = 2
    train(config, eight, devices=jax.devices()[:8])
    np.testing.assert_allclose(losses(eight), losses(whole), rtol=2e-5)


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_export_has_the_same_vectors_in_sentence_transformers(kind, tmp_path):
    import transformers
    from sentence_transformers import SentenceTransformer

    pooling = {"bert": "mean", "modernbert": "mean"}.get(kind, "cls")
    changes = {"model.model_type": kind, "model.layers": 2}
    config = settings(tmp_path, pooling=pooling, prompts=PROMPTS, **changes)
    stage = retriever_stage(config, with_data=False)
    encoder = {"encoder": random_params(stage.encoder)["encoder"]}
    known = dataclasses.replace(stage.tokenizer, max_length=config.row_length)
    save_vectors(str(tmp_path / "out"), stage.encoder, encoder, known, embedding_of(config), "")
    ours = hj.Retriever.from_pretrained(tmp_path / "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert theirs.max_seq_length == 48 and ours.encode(TEXTS).std(0).max() > 0.01
    for vectors, expected in (
        (ours.encode(TEXTS), theirs.encode_document(TEXTS)),
        (ours.encode(TEXTS, as_queries=True), theirs.encode_query(TEXTS)),
    ):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        assert (vectors * expected).sum(1).min() > 0.9999
    _, info = transformers.AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert all("pooler" in name for name in info["missing_keys"]) and not info["unexpected_keys"]


def test_search_ranks_by_the_best_passage(exported):
    model = hj.Retriever.from_pretrained(exported)
    docs = {f"d{i}": text for i, text in enumerate(TEXTS)}
    ranked = model.search({"q": "w7 w8"}, docs, k=3, passages=1)["q"]
    cosines = dict(zip(docs, model.encode(TEXTS) @ model.encode(["w7 w8"], as_queries=True)[0]))
    assert list(ranked) == sorted(cosines, key=lambda name: -cosines[name])[:3]
    np.testing.assert_allclose(list(ranked.values()), [cosines[name] for name in ranked], rtol=1e-5)


@dataclasses.dataclass(frozen=True)
class PlantedReader:
    """Queries and pages without a common word (`bridge`), as texts of their own."""

    texts: SeparateTexts
    split: str
    sizes: ClassVar = {"qdm": 100_000}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        drawn = (bridge(WORDS, self.split, lane, number) for number in range(start, start + count))
        return [self.texts.group(0, "", query, pages, 1) for query, *pages in drawn]


def test_learns_which_words_belong_together(tmp_path):
    changes = {"steps": 200, "log_every": 50, "checkpoint_every": 1000, "eval_every": 200, "eval_batches": 4}
    config = settings(tmp_path, batch_pairs=32, learning_rate=3e-3, **changes)
    stage = retriever_stage(config, with_data=False)
    texts = SeparateTexts(config.row_length, stage.tokenizer.template)
    reader, held_out = (PlantedReader(texts, split) for split in ("train", "held out"))
    source = packed_source(config, stage.tokenizer, reader, 3, 3 * config.batch_pairs)
    source = dataclasses.replace(source, layout=with_identities(source.layout, config))
    stage = dataclasses.replace(stage, source=source, held_out=HeldOut(held_out, {}))
    train(config, str(tmp_path / "run"), stage, jax.devices()[:1])
    before, after = (row for row in read_metrics(str(tmp_path / "run")) if row["split"] == "validation")
    assert before["pair_accuracy"] < 0.2 and after["pair_accuracy"] > 0.9


def test_a_dry_run_needs_no_files(tmp_path):
    changes = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.model": 2, "lanes": 4, "accumulate": 2}
    report = dry_run(settings(tmp_path, init="absent", pooling="", kl_weight=0.5, **changes))
    assert "in 2 microbatches" in report and "  all-gather" in report and "FLOPs per step" in report


def test_collapsed_vectors_after_warmup_and_batches_without_negatives_end_the_training(tmp_path):
    config = settings(tmp_path, steps=100, warmup=0.1)
    metrics = {"negatives": 30.0, "cosine_spread": 2e-4}
    check_vectors(config, 10, metrics)
    check_vectors(config, 11, metrics | {"cosine_spread": 0.1})
    with pytest.raises(InputError, match="collapsed up to step 11"):
        check_vectors(config, 11, metrics)
    with pytest.raises(InputError, match="no query up to step 1"):
        check_vectors(config, 1, metrics | {"negatives": 0.0})


def test_bad_encoders_are_refused_and_prompts_are_those_of_the_start(exported, pairs, tmp_path, monkeypatch):
    bare = save_encoder(str(tmp_path / "bare"), tokenizer(), 64)
    for changes, message in (
        ({"init": bare, "pooling": ""}, "does not record how it pools hidden states; set --config.pooling"),
        ({"teacher_weight": 1.0}, "teacher_weight=1.0 needs scored pairs; make them with harp teach"),
        ({"prompts": ("w1", " ".join(TEXTS))}, "no room for a text after its prompt"),
    ):
        config = settings(tmp_path, data=(pairs,), **changes)
        with pytest.raises(InputError, match=message):
            retriever_stage(config)
    config = settings(tmp_path, data=(pairs,), init=exported, pooling="", kl_weight=0.5)
    retriever_stage(config)
    assert (config.pooling, tuple(config.prompts)) == ("mean", PROMPTS)
    with_dense = Embedding("mean", ("Tanh",), ({},))
    monkeypatch.setattr("harp_jax.training.stages.retriever.recorded_embedding", lambda *_: with_dense)
    with pytest.raises(InputError, match="pass through a dense layer"):
        retriever_stage(config)
