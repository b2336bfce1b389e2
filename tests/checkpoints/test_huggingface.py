"""Hugging Face directories: torch, sentence-transformers and servers read ours; those of others are read as there, or rejected."""

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import transformers
from huggingface_hub.utils import filter_repo_objects
from safetensors.numpy import load_file, save_file

from data_pipeline.output.vocabulary import train_unigram
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import PARTS
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.start import load_ranker
from harp_jax.config import pretrain
from harp_jax.model.encoders.table import ENCODERS
from harp_jax.ranking.rerank import predict
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.stages.pretrain import pretrain_stage
from tests.support.architectures import close, saved
from tests.support.tiny_bert import CONFIG, PAIRS, random_params, small_tokenizer
from tests.support.tokenizers import save_trained

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


def test_torch_classes_load_it_completely_and_the_score_is_the_relation_of_two_sentences(exported):
    import torch

    ours = Reranker.from_pretrained(exported).predict(PAIRS)
    encoded = transformers.AutoTokenizer.from_pretrained(exported)(*zip(*PAIRS), padding=True, return_tensors="pt")
    for name, others in UNEXPECTED.items():
        model, info = getattr(transformers, name).from_pretrained(exported, output_loading_info=True)
        assert not info["missing_keys"] and not info["mismatched_keys"]
        assert all(key.startswith(others) for key in info["unexpected_keys"])
        if name == "BertForPreTraining":
            with torch.no_grad():
                relation = model(**encoded).seq_relationship_logits.numpy()
            np.testing.assert_allclose(ours, relation[:, 1], rtol=0, atol=1e-5 * np.abs(ours).max())
            assert not relation[:, 0].any()


@pytest.mark.parametrize(
    "kind, types", [("bert", 2), ("electra", 2), ("modernbert", 2), ("xlm-roberta", 2), ("distilbert", 0)]
)
def test_a_ranker_has_the_tensors_and_keys_that_servers_read(kind, types, tmp_path):
    """Text Embeddings Inference, vLLM and Infinity fail on a tensor that the class does not have, and on a missing key."""
    directory = tmp_path / "model"
    sizes = {name: getattr(CONFIG, name) for name in ("vocab_size", "layers", "hidden", "heads", "intermediate")}
    shape = ENCODERS[kind](**sizes, max_positions=40, type_vocab=types, pad=0)
    params = {name: tree for name, tree in random_params(shape).items() if name in ("encoder", "pooler", "score")}
    save_hf(str(directory), shape, params, replace(small_tokenizer(), max_length=36), "")
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


def test_reads_berts_pre_training_as_google_published_it(tmp_path):
    """Without a score, with older names of norms and in half precision; in several files, of which the index lists some."""
    model = transformers.BertForPreTraining(transformers.BertConfig(**CONFIG.to_config())).half()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    older = lambda name: name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")  # noqa: E731
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1
    for path in shards:
        save_file({older(name): tensor for name, tensor in load_file(path).items()}, path)
    words = model.get_input_embeddings().weight.detach().numpy()
    save_file({"bert.embeddings.word_embeddings.weight": 0 * words}, tmp_path / "model-unlisted.safetensors")
    config, params = load_hf(str(tmp_path))
    assert config == CONFIG and set(params) == {"encoder", "pooler", "mlm"}
    np.testing.assert_array_equal(params["encoder"]["embeddings"]["word"]["embedding"], words)
    assert params["pooler"]["kernel"].dtype == np.float32


def test_tensors_that_transformers_would_read_otherwise_and_changed_files_are_refused(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    pooler, words = (state[f"bert.{name}.weight"] for name in ("pooler.dense", "embeddings.word_embeddings"))
    for name, tensor, message in (
        ("bert.pooler.dense.weight", pooler, r"model\.safetensors was changed since it was written"),
        ("bert.pooler.dense.weight", pooler.astype(np.int8), "weight is quantised .int8."),
        ("cls.predictions.decoder.weight", words + 1, "not tied"),
    ):
        save_file({**state, name: tensor}, path, metadata={"changed": "yes"})
        with pytest.raises(InputError, match=message):
            load_hf(str(tmp_path))
        (tmp_path / "SHA256SUMS").unlink(missing_ok=True)


TEXTS = [f"the cat sat in the {word} mat, unseen" for word in ["red", "blue", "green", "one", "two", "three", "wörds"]]
TEXT_PAIRS = [("cat mat", each) for each in TEXTS] + [("red", "red"), ("the cat", " ".join(TEXTS))]
TEXT_PAIRS += [("the <pad> cat", "red <pad> mat </s> [SEP] [PAD]"), ("[MASK] <mask>", "<s> [CLS] the <pad><pad>")]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    small_tokenizer().save(str(folder / "distilbert"))
    kinds = ("modernbert", "roberta", "xlm-roberta")
    trained = {kind: save_trained(kind, str(folder / kind), TEXTS, 300) for kind in kinds}
    # As in multilingual-e5-small: BERT with XLM-R's tokenizer, which has one token type.
    return {**trained, "distilbert": str(folder / "distilbert"), "bert": trained["xlm-roberta"]}


def checked_scores(directory: Path) -> np.ndarray:
    """CrossEncoder's scores of TEXT_PAIRS; ours, and those of our export here and in CrossEncoder, are the same."""
    import torch
    from sentence_transformers import CrossEncoder

    theirs = CrossEncoder(str(directory), device="cpu").predict(TEXT_PAIRS, activation_fn=torch.nn.Identity())
    export = f"{directory}-export"
    save_hf(export, *load_hf(str(directory)), load_tokenizer(str(directory)), "")
    for path in (str(directory), export):
        close(Reranker.from_pretrained(path).predict(TEXT_PAIRS), theirs, 1e-5, path)
    close(CrossEncoder(export, device="cpu").predict(TEXT_PAIRS), theirs, 1e-5, "export in CrossEncoder")
    return theirs


@pytest.mark.parametrize("kind", ["modernbert-mean", "roberta", "xlm-roberta", "distilbert", "bert"])
def test_a_cross_encoder_of_transformers_scores_as_there(kind, tokenizers, tmp_path):
    """So does the initial model of pre-training."""
    tokenizer = tokenizers[kind.partition("-mean")[0]]
    directory = saved(kind, tokenizer, tmp_path / "model", more=30)  # more embeddings than tokens
    theirs = checked_scores(directory)
    ours = load_file(tmp_path / "model-export" / "model.safetensors")
    assert ours.keys() == load_file(directory / "model.safetensors").keys()
    config = pretrain()
    config.init, config.dtype = str(directory), "float32"
    stage = pretrain_stage(config, with_data=False)
    start = stage.start(stage.encoder, jax.random.key(9))
    scorer = CrossEncoderScorer(stage.encoder, start, stage.tokenizer, config.row_length)
    close(predict(scorer, TEXT_PAIRS), theirs, 1e-5, "initial model")


@pytest.mark.parametrize("tokenizer", ["unigram", "bare"])
def test_token_types_are_those_that_the_tokenizer_passes(tokenizer, tmp_path):
    """A BERT with two types: our Unigram passes both, a BertTokenizer may pass none."""
    made = train_unigram(iter(TEXTS), 70) if tokenizer == "unigram" else replace(small_tokenizer(), token_types=False)
    made.save(str(tmp_path / "tokenizer"))
    directory = saved("bert", str(tmp_path / "tokenizer"), tmp_path / "model")
    assert load_tokenizer(str(directory)).template.second_type == (tokenizer == "unigram")
    checked_scores(directory)


@pytest.mark.parametrize("kind, pooling", [("modernbert", "cls"), ("modernbert", "mean"), ("xlm-roberta", "cls")])
def test_a_modular_head_scores_as_there_and_stays_when_it_is_exported(kind, pooling, tokenizers, tmp_path):
    """The module chains of Ettin's re-rankers, and the one that equals RoBERTa's head."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
    from torch import nn

    base = saved(kind, tokenizers[kind], tmp_path / "base")
    encoder = Transformer(str(base), transformer_task="feature-extraction")
    h = encoder.get_embedding_dimension()
    inner = [Dense(h, h, activation_function=nn.Tanh())]
    if kind == "modernbert":
        inner = [Dense(h, h, bias=False, activation_function=nn.GELU()), LayerNorm(h)]
        nn.init.normal_(inner[1].norm.bias)
    last = Dense(h, 1, activation_function=nn.Identity(), module_output_name="scores")
    modular = tmp_path / "modular"
    modules = [encoder, Pooling(h, pooling_mode=pooling), *inner, last]
    CrossEncoder(modules=modules, activation_fn=nn.Identity(), device="cpu").save_pretrained(str(modular))
    theirs = checked_scores(modular)
    names = [str(path.relative_to(modular)) for path in modular.rglob("*") if path.is_file()]
    for name in filter_repo_objects(names, allow_patterns=PARTS):  # the files that the Hub sends
        (tmp_path / "fetched" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(modular / name, tmp_path / "fetched" / name)
    close(Reranker.from_pretrained(str(tmp_path / "fetched")).predict(TEXT_PAIRS), theirs, 1e-5, "fetched")

    encoder, pooled, *_, last = json.loads((modular / "modules.json").read_text())
    (modular / "modules.json").write_text(json.dumps([encoder, pooled, last]))
    with pytest.raises(InputError, match=r"its head \((cls|mean), Identity\) is not supported for .*, only cls"):
        load_hf(str(modular))


def test_both_spellings_of_modernberts_config(tokenizers, tmp_path):
    directory = saved("modernbert", tokenizers["modernbert"], tmp_path / "model")
    path = directory / "config.json"
    newer = json.loads(path.read_text())
    assert "rope_parameters" in newer and "layer_types" in newer
    newer["rope_parameters"]["sliding_attention"]["rope_theta"] = 5.0
    path.write_text(json.dumps(newer))
    shape = load_hf(str(directory))[0]
    older = {name: value for name, value in newer.items() if name not in ("rope_parameters", "layer_types")}
    older |= {"global_rope_theta": 160000.0, "local_rope_theta": 5.0, "global_attn_every_n_layers": 2}
    path.write_text(json.dumps(older))
    assert load_hf(str(directory))[0] == shape and (shape.local_theta, shape.global_every) == (5.0, 2)


PERIODS = ["full_attention", "full_attention", "sliding_attention"]
SCALED = {kind: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1.0} for kind in PERIODS}


@pytest.mark.parametrize(
    "kind, fields, message",
    [
        ("bert", {"vocab_size": 47}, "word_embeddings.weight has shape"),
        ("bert", {"num_hidden_layers": 3}, r"layer.2.attention.self.query.weight is missing \(and 15 more"),
        ("bert", {"num_hidden_layers": 1}, r"bert\.encoder\.layer\.1\.\S+ has no place in config\.json"),
        ("modernbert", {}, r"the tokenizer has \d+ tokens .* word embeddings .*; use the tokenizer that"),
        ("modernbert", {"auto_map": {"AutoModel": "model.X"}}, "custom code .auto_map., which is not executed here"),
        ("modernbert", {"model_type": "deberta-v2"}, "'deberta-v2', not one of bert, distilbert, roberta, xlm-roberta, modernbert"),
        ("modernbert", {"layer_types": PERIODS}, "not repeat"),
        ("modernbert", {"rope_parameters": SCALED}, "rope_type is 'linear'"),
        ("roberta", {"pad_token_id": 0}, "the tokenizer pads with id 1, but .* has pad_token_id 0, which its positions follow"),
        ("distilbert", {"activation": "relu"}, "activation is 'relu'; only 'gelu' is supported"),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_line(kind, fields, message, tokenizers, tmp_path):
    directory = saved(kind, tokenizers[kind], tmp_path / "model", more=0 if fields else -20)
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(InputError, match=message) as refused:
        load_ranker(str(directory))
    assert "\n" not in str(refused.value)


def test_a_second_token_type_without_an_embedding_and_a_model_without_a_score_are_refused(tokenizers, tmp_path):
    directory = saved("bert", tokenizers["distilbert"], tmp_path / "bert", type_vocab_size=1)
    with pytest.raises(InputError, match="tokens and 2 token types, but .* word embeddings and 1 token types; use the"):
        load_ranker(str(directory))
    directory = str(saved("xlm-roberta", tokenizers["xlm-roberta"], tmp_path / "model"))
    three_labels = {"classifier.out_proj.weight": np.zeros((3, 36), np.float32)}
    save_file(load_file(f"{directory}/model.safetensors") | three_labels, f"{directory}/model.safetensors")
    with pytest.raises(InputError, match="has no pooler and no score"):
        Reranker.from_pretrained(directory)


def test_pickled_weights_are_refused_with_a_command_that_converts_them(tokenizers, tmp_path):
    import torch

    directory = saved("roberta", tokenizers["roberta"], tmp_path / "model")
    expected, tensors = load_ranker(str(directory))[1], load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save({name: torch.from_numpy(each) for name, each in tensors.items()}, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin is a pickle, ") as refused:
        load_ranker(str(directory))
    python, option, program = shlex.split(str(refused.value).partition("convert it: ")[2])
    subprocess.run([sys.executable, option, program], check=True)
    jax.tree.map(np.testing.assert_array_equal, load_ranker(str(directory))[1], expected)
