"""Hugging Face directories: reads those of others, and writes ones that torch and sentence-transformers read."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import transformers
from safetensors.numpy import load_file, save_file

from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.files import SUMS
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.model.encoders.bert import to_config
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.encoders.table import ENCODERS
from tests.support.tiny_bert import CONFIG, PAIRS, random_params, small_tokenizer

# Tensors of an export with all heads that each class does not read: the heads of the other classes.
UNEXPECTED = {
    "AutoModel": ("classifier.", "cls."),
    "AutoModelForSequenceClassification": ("cls.",),
    "BertForPreTraining": ("classifier.",),
    "BertForMaskedLM": ("classifier.", "cls.seq_relationship.", "bert.pooler."),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("export") / "model")
    save_hf(directory, CONFIG, random_params(CONFIG), small_tokenizer(), "# A model\n")
    return directory


def save_ranker(directory: Path, config: EncoderConfig) -> None:
    """An export without the heads of pre-training."""
    params = {name: tree for name, tree in random_params(config).items() if name in ("encoder", "pooler", "score")}
    save_hf(str(directory), config, params, replace(small_tokenizer(), max_length=36), "# A ranker\n")


@pytest.mark.parametrize("name", UNEXPECTED)
def test_torch_classes_load_it_completely(exported, name):
    _, info = getattr(transformers, name).from_pretrained(exported, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    assert all(key.startswith(UNEXPECTED[name]) for key in info["unexpected_keys"])


@pytest.mark.parametrize(
    "kind, types", [("bert", 2), ("electra", 2), ("modernbert", 2), ("xlm-roberta", 2), ("distilbert", 0)]
)
def test_a_ranker_has_the_tensors_and_keys_that_servers_read(kind, types, tmp_path):
    """Text Embeddings Inference, vLLM and Infinity fail on a tensor that the class does not have, and on a missing key."""
    directory = tmp_path / "model"
    sizes = {name: getattr(CONFIG, name) for name in ("vocab_size", "layers", "hidden", "heads", "intermediate")}
    save_ranker(directory, ENCODERS[kind].shape(**sizes, max_positions=40, type_vocab=types, pad=0))
    config = transformers.AutoConfig.from_pretrained(directory)
    module = transformers.AutoModelForSequenceClassification.from_config(config)
    shapes = {key: tuple(tensor.shape) for key, tensor in module.state_dict().items()}
    state = load_file(directory / "model.safetensors")
    assert state.keys() == {key for key in shapes if not key.endswith("position_ids")}
    assert all(shapes[key] == tensor.shape for key, tensor in state.items())
    config = json.loads((directory / "config.json").read_text())
    assert config["architectures"] == [type(module).__name__]
    # Text Embeddings Inference: one label makes a re-ranker.
    assert len(config["id2label"]) == len(config["label2id"]) == 1 and isinstance(config["pad_token_id"], int)
    passed = transformers.AutoTokenizer.from_pretrained(directory).model_input_names
    assert ("token_type_ids" in passed) == (types > 1)  # DistilBERT's class has no such input
    layout = json.loads((directory / "sentence_bert_config.json").read_text())
    assert layout["max_seq_length"] == 36  # TEI's parser requires it in this file
    # vLLM accepts only activations of torch.nn.modules; Infinity loads through CrossEncoder.
    assert config["sentence_transformers"]["activation_fn"].startswith("torch.nn.modules.")


def test_sentence_transformers_reads_and_writes_the_same_layout(tmp_path):
    from sentence_transformers import CrossEncoder

    save_ranker(tmp_path / "ours", CONFIG)
    ours = Reranker.from_pretrained(str(tmp_path / "ours")).predict(PAIRS)
    model = CrossEncoder(str(tmp_path / "ours"), device="cpu")
    assert model.max_seq_length == 36
    model.save_pretrained(str(tmp_path / "theirs"))
    # Without the older key, the layout alone must keep the scores raw.
    path = tmp_path / "theirs" / "config.json"
    for config in ((whole := json.loads(path.read_text())), {**whole, "sentence_transformers": None}):
        path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
        theirs = CrossEncoder(str(tmp_path / "theirs"), device="cpu").predict(PAIRS)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(ours).max())


def test_files_are_readable_as_the_umask_allows(tmp_path):
    """safetensors writes its file for the owner only: a server that runs as another user could not read it."""
    for umask, mode in ((0o022, 0o644), (0o077, 0o600)):
        before = os.umask(umask)
        try:
            save_hf(str(tmp_path / str(mode)), CONFIG, random_params(CONFIG), small_tokenizer(), "")
        finally:
            os.umask(before)
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / str(mode)).iterdir()} == {mode}


def test_scores_are_those_of_torch_as_the_relation_of_two_sentences(exported):
    import torch

    ours = Reranker.from_pretrained(exported).predict(PAIRS)
    encoded = transformers.AutoTokenizer.from_pretrained(exported)(*zip(*PAIRS), padding=True, return_tensors="pt")
    with torch.no_grad():
        relation = transformers.BertForPreTraining.from_pretrained(exported)(**encoded).seq_relationship_logits.numpy()
    np.testing.assert_allclose(ours, relation[:, 1], rtol=0, atol=1e-5 * np.abs(ours).max())
    assert not relation[:, 0].any()


def test_reads_a_berts_pre_training_as_transformers_wrote_it(tmp_path):
    model = transformers.BertForPreTraining(transformers.BertConfig(**to_config(CONFIG)))
    model.save_pretrained(tmp_path)
    config, params = load_hf(str(tmp_path))
    assert config == CONFIG and set(params) == {"encoder", "pooler", "mlm"}
    words = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(params["encoder"]["embeddings"]["word"]["embedding"], words)


def copied(directory: str, tmp_path, **config) -> str:
    """A copy with another config.json and without digests."""
    for name in os.listdir(directory):
        if name != SUMS:
            shutil.copy(os.path.join(directory, name), tmp_path)
    fields = {**json.loads((tmp_path / "config.json").read_text()), **config}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    return str(tmp_path)


def test_old_names_and_half_precision(exported, tmp_path):
    directory = copied(exported, tmp_path)
    state = load_file(f"{directory}/model.safetensors")
    older = lambda name: name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")  # noqa: E731
    save_file({older(name): each.astype(np.float16) for name, each in state.items()}, f"{directory}/model.safetensors")
    _, params = load_hf(directory)
    expected = state["bert.embeddings.LayerNorm.weight"].astype(np.float16)
    np.testing.assert_array_equal(params["encoder"]["embeddings"]["norm"]["scale"], expected)
    assert params["score"]["kernel"].dtype == np.float32


def edited(change):
    """A change of tensors in model.safetensors."""

    def apply(path: Path) -> None:
        state = load_file(path)
        save_file(state | change(state), path)

    return apply


POOLER, WORDS = "bert.pooler.dense.weight", "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "albert"}, "its model_type is 'albert'"),
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new'"),
        ({"vocab_size": 47}, "word_embeddings.weight has shape"),
        ({"num_hidden_layers": 3}, r"layer.2.attention.self.query.weight is missing \(and 15 more"),
        ({"num_hidden_layers": 1}, r"bert\.encoder\.layer\.1\.\S+ has no place in config\.json"),
        (edited(lambda state: {POOLER: state[POOLER].astype(np.int8)}), "weight is quantised .int8."),
        (edited(lambda state: {"cls.predictions.decoder.weight": state[WORDS] + 1}), "not tied"),
        (lambda path: os.truncate(path, 1000), "safetensors or its index is damaged"),
        (os.remove, r"no model\.safetensors in .*; fetch or write the whole"),
    ],
)
def test_what_transformers_would_read_otherwise_is_refused(exported, tmp_path, change, message):
    directory = copied(exported, tmp_path, **(change if isinstance(change, dict) else {}))
    if callable(change):
        change(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=message):
        load_hf(directory)


def test_shards_are_those_of_the_index(exported, tmp_path):
    """As in transformers: a shard that the index does not list is ignored."""
    directory = copied(exported, tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    shard_of = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(state)}
    for shard in set(shard_of.values()):
        save_file({name: state[name] for name in state if shard_of[name] == shard}, tmp_path / shard)
    save_file({name: np.zeros_like(state[name]) for name in state}, tmp_path / "model-00003-of-00003.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shard_of}))
    jax.tree.map(np.testing.assert_array_equal, load_hf(directory)[1], load_hf(exported)[1])


@pytest.mark.parametrize("name", ["vocab.txt", "model.safetensors"])
def test_a_changed_file_of_an_export_is_named(exported, tmp_path, name):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b" ")
    with pytest.raises(InputError, match=f"{name} was changed since it was written"):
        Reranker.from_pretrained(str(tmp_path))
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        Reranker.from_pretrained(str(tmp_path))
