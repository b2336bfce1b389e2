"""Export of a real, tiny training run to a directory that torch and the re-ranker load."""

import shutil
from pathlib import Path

import huggingface_hub
import jax
import numpy as np
import pytest

import harp_jax.checkpoints.checkpoint
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.files import listed_sums, write_sums
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.export import export_model, model_card
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.export import arguments_parser, main
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import Tokenizer
from tests.support.synthetic import VOCAB, tokenizer
from tests.support.tiny_bert import random_params
from tests.support.tiny_run import run_tiny


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return run_tiny(tmp_path_factory.mktemp("export"), 2, steps=3, checkpoint_every=1, **{"mesh.model": 2})


def command(*words: object) -> None:
    main(arguments_parser().parse_args([*map(str, words)]))


def test_command_exports_the_newest_checkpoint_with_a_card(workdir, tmp_path):
    output = tmp_path / "model"
    command(f"--workdir={workdir}", f"--output={output}")
    params = load_params(workdir)[0]
    config, loaded = load_hf(str(output))
    # Sharding over two devices pads the vocabulary of 211; the export is not padded.
    assert config.vocab_size == VOCAB < params["encoder"]["embeddings"]["word"]["embedding"].shape[0]
    words = [tree["encoder"]["embeddings"]["word"]["embedding"][:VOCAB] for tree in (loaded, params)]
    np.testing.assert_array_equal(*words)
    jax.tree.map(np.testing.assert_array_equal, loaded["encoder"]["layer_0"], dict(params["encoder"]["layer_0"]))
    card = huggingface_hub.ModelCard.load(output / "README.md")
    assert card.data.pipeline_tag == "text-ranking" and "parameters of step 3." in card.text


def test_a_line_of_the_calibration_that_is_no_pair_is_named(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a query\ta document\nanother\n")
    with pytest.raises(InputError, match="pairs.tsv, line 2: not query<TAB>document"):
        command("--workdir=x", f"--calibration={tmp_path}/pairs.tsv", "--output=model")


def test_the_card_names_the_step_of_the_exported_parameters(workdir, tmp_path, monkeypatch):
    shutil.copytree(workdir, tmp_path / "run")
    monkeypatch.setattr(harp_jax.checkpoints.checkpoint, "RETRY_SECONDS", 0.0)
    for path in (tmp_path / "run" / "checkpoints" / "3" / "state").rglob("*"):
        if path.is_file():
            path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))
    export_model(str(tmp_path / "run"), str(tmp_path / "older"))
    card = (tmp_path / "older" / "README.md").read_text()
    assert "parameters of step 2." in card and "Step 2, train:" in card and "Step 3" not in card


def test_parts_of_another_run_in_a_workdir_are_refused(workdir, tmp_path):
    mixed = {part: str(shutil.copytree(workdir, tmp_path / part)) for part in ("config", "tokenizer", "selected")}
    config = Path(mixed["config"], "config.json")
    config.write_text(config.read_text().replace('"log_every": 1,', '"log_every": 2,'))
    write_sums(mixed["config"], [*listed_sums(mixed["config"])])
    shutil.rmtree(f"{mixed['tokenizer']}/tokenizer")
    Tokenizer.of_words((*tokenizer().tokens[:-2], *tokenizer().tokens[:-3:-1])).save(f"{mixed['tokenizer']}/tokenizer")
    record = Path(mixed["selected"], "selected", "selection.json")
    record.parent.mkdir()
    record.write_text('{"step": 3, "model": "../../elsewhere", "config_sha256": "1"}')
    for part, message in (
        ("config", "next to it are from different runs"),
        ("tokenizer", "tokenizer/.* was changed"),
        ("selected", r"selection\.json belongs to another run"),
    ):
        for use in (Reranker.from_pretrained, lambda run: export_model(run, str(tmp_path / "model"))):
            with pytest.raises(InputError, match=message):
                use(mixed[part])


def test_an_export_has_the_heads_and_the_length_of_its_training(workdir, tmp_path, monkeypatch):
    """Also in CrossEncoder, although the encoder has more positions; if max_seq_length is edited, that counts."""
    from sentence_transformers import CrossEncoder

    place, rng = str(tmp_path / "model"), np.random.default_rng(0)
    pairs = [("w1 w2 w3", " ".join(f"w{i}" for i in rng.integers(0, 200, n))) for n in (1, 7, 30, 60, 100, 150)]
    params, config, step = load_params(workdir)
    config.row_length = 48
    monkeypatch.setattr(harp_jax.checkpoints.checkpoint, "load_params", lambda _: (params, config, step))
    for stage, weight, only_ranker, heads in (
        ("pretrain", 1.0, False, {"mlm"}),
        ("pretrain", 1.0, True, set()),
        ("pretrain", 0.0, False, set()),
        ("finetune", 1.0, False, set()),
    ):
        config.stage, config.mlm_weight = stage, weight
        export_model(workdir, place, ranker=only_ranker)
        assert set(load_hf(place)[1]) == {"encoder", "pooler", "score"} | heads
    for length in ("48", "20", "60"):
        edited = Path(place, "sentence_bert_config.json")
        edited.write_text(edited.read_text().replace("48", length).replace("20", length))
        ranker = Reranker.from_pretrained(place)
        assert ranker.scorer.max_length == int(length) < config.model.max_positions
        ours, theirs = ranker.predict(pairs), CrossEncoder(place, device="cpu").predict(pairs)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
        Path(place, "SHA256SUMS").unlink(missing_ok=True)
    prompted = '{"model_type": "CrossEncoder", "prompts": {"q": "a "}, "default_prompt_name": "q"}'
    Path(place, "config_sentence_transformers.json").write_text(prompted)
    with pytest.raises(InputError, match="the default prompt 'a ' is not supported"):
        Reranker.from_pretrained(place)


def test_the_card_keeps_no_password_and_no_part_of_a_path_with_spaces(tmp_path):
    for given, kept in (
        ("s3://KEY:SEC/RET+=@bucket/a,http://host:80/b,s3://KEY:SECRET@c/d", "s3://bucket/a,http://host:80/b,s3://c/d"),
        ("/home/me's/SECRET a/c,file:///srv/SECRET d/e", "c,e"),
        ("runs (old)/my pairs,gs://bucket/c@2/d", "runs (old)/my pairs,gs://bucket/c@2/d"),
        ("https://host/a?X-Sign=SECRET&t=SECRET,gs://b/?.tsv", "https://host/a,gs://b/?.tsv"),
        ("/home/me/SECRET, too/c,./../../SECRET/x", "c,x"),
    ):
        config = {"encoder": {"model_type": "toy", "layers": 2, "hidden": 8}, "docs": given}
        card = model_card(str(tmp_path), config, "name", 3)
        assert f'"docs": "{kept}"' in card
        assert "KEY" not in card and "SECRET" not in card and "/home" not in card


def test_first_layers_have_the_hidden_states_of_the_encoders_layer_in_torch(tmp_path):
    import torch
    import transformers

    encoder, start = str(tmp_path / "hf"), str(tmp_path / "start")
    shape = BertShape(tokenizer().size, 3, 32, 2, 64, 64)
    save_hf(encoder, shape, random_params(shape), tokenizer(), "")
    command(f"--encoder={encoder}", "--layers=2", f"--output={start}")
    assert set(load_hf(start)[1]) == {"encoder"}
    ids = torch.tensor([[2, 10, 20, 30, 3]])
    with torch.no_grad():
        whole = transformers.AutoModel.from_pretrained(encoder)(ids, output_hidden_states=True).hidden_states[2]
        found = transformers.AutoModel.from_pretrained(start)(ids).last_hidden_state
    torch.testing.assert_close(found, whole, rtol=0, atol=0)
