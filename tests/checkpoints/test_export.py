"""From a real, tiny training run to a directory that torch and the re-ranker load."""

import errno
import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import harp_jax.checkpoints.checkpoint
from harp_jax.checkpoints.checkpoint import load_newest, load_params
from harp_jax.checkpoints.export import export
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.model_card import model_card
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.errors import InputError
from harp_jax.ranking.reranker import Reranker
from harp_jax.training.train import train
from tests.support.synthetic import VOCAB
from tests.support.tiny_run import tiny_config, tiny_stage


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("export"))
    config = tiny_config(directory, steps=3, checkpoint_every=1, log_every=1, **{"mesh.model": 2})
    train(config, os.path.join(directory, "run"), tiny_stage(config), jax.devices()[:2])
    return os.path.join(directory, "run")


def test_command_exports_the_newest_checkpoint(workdir, tmp_path):
    output = str(tmp_path / "model")
    command = [sys.executable, "-m", "harp_jax.export", f"--workdir={workdir}", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    params, _ = load_params(workdir)
    config, loaded = load_hf(output)
    # Sharded over two devices the vocabulary of 211 was padded; the export is not.
    assert config.vocab_size == VOCAB < params["bert"]["embeddings"]["word"]["embedding"].shape[0]
    np.testing.assert_array_equal(
        loaded["bert"]["embeddings"]["word"]["embedding"], params["bert"]["embeddings"]["word"]["embedding"][:VOCAB]
    )
    jax.tree.map(np.testing.assert_array_equal, loaded["bert"]["layer_1"], dict(params["bert"]["layer_1"]))
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Step 3, train:" in card and "| loss |" in card
    assert f"python -m harp_jax.export --workdir={workdir} --output={output}" in card
    assert f"jax {jax.__version__}" in card and '"row_length": 128' in card


def test_torch_scores_the_export_as_we_do(workdir, tmp_path):
    from sentence_transformers import CrossEncoder

    export(workdir, str(tmp_path / "model"))
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 200, rng.integers(1, 60))) for _ in range(8)]
    ours = Reranker.from_pretrained(str(tmp_path / "model")).rerank("w1 w2 w3", texts)
    theirs = CrossEncoder(str(tmp_path / "model"), device="cpu").predict([("w1 w2 w3", text) for text in texts])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def test_the_card_names_the_step_of_the_exported_parameters(workdir, tmp_path, monkeypatch):
    shutil.copytree(workdir, tmp_path / "run")
    export(str(tmp_path / "run"), str(tmp_path / "newest"))
    assert "parameters of step 3." in (tmp_path / "newest" / "README.md").read_text()
    for path in (tmp_path / "run" / "checkpoints" / "3" / "state").rglob("*"):
        if path.is_file():
            path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))
    export(str(tmp_path / "run"), str(tmp_path / "older"))
    card = (tmp_path / "older" / "README.md").read_text()
    assert "parameters of step 2." in card and "Step 2, train:" in card and "Step 3" not in card

    def unanswered(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(harp_jax.checkpoints.checkpoint, "_read_params", unanswered)
    with pytest.raises(InputError, match="cannot read checkpoint 3 .* run the same command again"):
        export(str(tmp_path / "run"), str(tmp_path / "older"))


def test_a_changed_config_or_metric_of_a_workdir_is_named(workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    before = config.read_text()
    assert '"heads": 2' in before
    config.write_text(before.replace('"heads": 2', '"heads": 4'))
    with pytest.raises(InputError, match="config.json was changed since it was written"):
        Reranker.from_pretrained(str(tmp_path / "run"))
    config.write_text(before)
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(lines) + lines[-1][:-9])  # as a kill leaves it
    assert len(read_metrics(str(tmp_path / "run"))) == len(lines)
    for damage in (b"\xff", b"}", b"1"):
        metrics.write_bytes(damage + b"".join(lines))
        with pytest.raises(InputError, match=r"metrics.jsonl, line 1: damaged"):
            export(str(tmp_path / "run"), str(tmp_path / "model"))


def test_an_export_reads_as_many_tokens_as_it_was_trained_on(workdir, tmp_path, monkeypatch):
    """Here and in CrossEncoder, although the encoder has more positions: selection and report see the same texts."""
    from sentence_transformers import CrossEncoder

    step, params, config = load_newest(workdir)
    config.row_length = 48
    monkeypatch.setattr(harp_jax.checkpoints.checkpoint, "load_newest", lambda _: (step, params, config))
    export(workdir, str(tmp_path / "model"))
    reranker = Reranker.from_pretrained(str(tmp_path / "model"), max_length=None)
    assert reranker.scorer.max_length == 48 < config.model.max_positions
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 200, 100)) for _ in range(4)]
    ours = reranker.rerank("w1 w2 w3", texts)
    theirs = CrossEncoder(str(tmp_path / "model"), device="cpu").predict([("w1 w2 w3", text) for text in texts])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
    longer = Reranker.from_pretrained(str(tmp_path / "model"), max_length=96).rerank("w1 w2 w3", texts)
    assert np.abs(longer - ours).max() > 1e-4 * np.abs(ours).max()


def test_fine_tuned_models_have_no_mlm_head(workdir, tmp_path, monkeypatch):
    step, params, config = load_newest(workdir)
    config.stage = "finetune"
    monkeypatch.setattr(harp_jax.checkpoints.checkpoint, "load_newest", lambda _: (step, params, config))
    export(workdir, str(tmp_path / "model"))
    assert set(load_hf(str(tmp_path / "model"))[1]) == {"bert", "pooler", "score"}


def test_card_of_a_run_with_a_recorded_command(workdir, tmp_path):
    (tmp_path / "command.txt").write_text("python -m harp_jax.main --config=configs/x.py --workdir=run\n")
    with open(os.path.join(workdir, "config.json")) as file:
        config = json.load(file)
    card = model_card(str(tmp_path), {**config, "data": ["pairs/a", "pairs/b"], "init": "bert-dir"}, "name", 20)
    assert "python -m harp_jax.main --config=configs/x.py --workdir=run\n" in card
    assert "- data: pairs/a, pairs/b\n- init: bert-dir" in card
    assert "Nothing was recorded." in card


def test_refuses_what_it_cannot_export(workdir, tmp_path):
    with pytest.raises(InputError, match="no training workdir"):
        export(str(tmp_path / "absent"), str(tmp_path / "model"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="no checkpoint yet"):
        export(str(tmp_path / "empty"), str(tmp_path / "model"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    with pytest.raises(InputError, match="is no exported model"):
        export(workdir, str(tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == ["notes"]
    assert not (tmp_path / "model").exists()


def test_a_workdir_scores_as_its_export(workdir, tmp_path):
    export(workdir, str(tmp_path / "model"))
    pairs = [("w1 w2 w3", " ".join(f"w{i}" for i in range(n))) for n in (1, 5, 80, 150)]
    before, after = Reranker.from_pretrained(workdir), Reranker.from_pretrained(str(tmp_path / "model"))
    assert before.scorer.max_length == after.scorer.max_length == 128
    np.testing.assert_array_equal(before.predict(pairs), after.predict(pairs))
