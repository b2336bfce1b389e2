"""Directories as others publish them: heads of sentence-transformers, both spellings of config.json, and rejected ones."""

import json
import shlex
import shutil
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest
from huggingface_hub.utils import filter_repo_objects
from safetensors.numpy import load_file, save_file

from data_pipeline.output.vocabulary import train_unigram
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import PARTS
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.onnx_openvino import write_onnx
from harp_jax.config import finetune, pretrain
from harp_jax.ranking.rerank import predict
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.pretrain import pretrain_stage
from tests.support.architectures import saved
from tests.support.tiny_bert import small_tokenizer
from tests.support.tokenizers import save_trained

TEXTS = [f"the cat sat in the {word} mat, unseen" for word in ["red", "blue", "green", "one", "two", "three", "wörds"]]
PAIRS = [("cat mat", each) for each in TEXTS] + [("red", "red"), ("the cat", " ".join(TEXTS))]
PAIRS += [("the <pad> cat", "red <pad> mat </s> [SEP] [PAD]"), ("[MASK] <mask>", "<s> [CLS] the <pad><pad>")]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    small_tokenizer().save(str(folder / "distilbert"))
    kinds = ("modernbert", "roberta", "xlm-roberta")
    trained = {kind: save_trained(kind, str(folder / kind), TEXTS, 300) for kind in kinds}
    # As in multilingual-e5-small: BERT with XLM-R's tokenizer, which has one token type.
    return {**trained, "distilbert": str(folder / "distilbert"), "bert": trained["xlm-roberta"]}


@pytest.mark.parametrize("kind", ["modernbert-mean", "roberta", "xlm-roberta", "distilbert", "bert"])
def test_a_cross_encoder_of_transformers_scores_as_there(kind, tokenizers, tmp_path):
    """So do the initial models of pre-training and (with its head) of fine-tuning, and our export in CrossEncoder."""
    import torch
    from sentence_transformers import CrossEncoder

    tokenizer = tokenizers[kind.partition("-mean")[0]]
    directory = saved(kind, tokenizer, tmp_path / "model", more=30)  # more embeddings than tokens
    export = str(tmp_path / "export")
    theirs = CrossEncoder(str(directory), device="cpu").predict(PAIRS, activation_fn=torch.nn.Identity())
    shape, params = load_hf(str(directory))
    in_onnx = partial(write_onnx, config=shape, params=params) if kind == "distilbert" else None
    save_hf(export, shape, params, load_tokenizer(tokenizer), "", more=in_onnx)
    assert load_file(f"{export}/model.safetensors").keys() == load_file(f"{directory}/model.safetensors").keys()
    found = [Reranker.from_pretrained(str(directory)).predict(PAIRS), CrossEncoder(export, device="cpu").predict(PAIRS)]
    if in_onnx:
        found.append(Reranker.from_pretrained(export, backend="onnx", dtype="float32").predict(PAIRS))
    tuned, first = finetune(), pretrain()
    tuned.init_head = "pretrained"
    for config in (tuned, first):
        config.init, config.dtype = str(directory), "float32"
    for stage in (finetune_stage(tuned, with_data=False), pretrain_stage(first, with_data=False)):
        start = stage.start(stage.encoder, jax.random.key(9))
        scorer = CrossEncoderScorer(stage.encoder, start, stage.tokenizer, tuned.row_length)
        found.append(predict(scorer, PAIRS))
    for ours in found:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(
    "kind, tokenizer", [("bert", "unigram"), ("bert", "gemma"), ("bert", "bare"), ("xlm-roberta", "gemma")]
)
def test_token_types_are_those_that_the_tokenizer_passes(kind, tokenizer, tmp_path):
    """Our Unigram with two types; a general class and a BertTokenizer that pass none to a BERT with two."""
    import torch
    from sentence_transformers import CrossEncoder

    files = tmp_path / "tokenizer"
    if tokenizer == "unigram":
        train_unigram(iter(TEXTS), 70).save(str(files))
    else:
        save_trained({"bare": "bert"}.get(tokenizer, tokenizer), str(files), TEXTS, 300)
    if tokenizer == "bare":
        settings = json.loads((files / "tokenizer_config.json").read_text())
        settings["model_input_names"] = ["input_ids", "attention_mask"]
        (files / "tokenizer_config.json").write_text(json.dumps(settings))
        (files / "SHA256SUMS").unlink()
    directory = saved(kind, str(files), tmp_path / "model")
    assert load_tokenizer(str(directory)).template.second_type == (tokenizer == "unigram")
    theirs = CrossEncoder(str(directory), device="cpu").predict(PAIRS, activation_fn=torch.nn.Identity())
    shape, params = load_hf(str(directory))
    save_hf(str(tmp_path / "export"), shape, params, load_tokenizer(str(directory)), "")
    found = [Reranker.from_pretrained(str(path)).predict(PAIRS) for path in (directory, tmp_path / "export")]
    found.append(CrossEncoder(str(tmp_path / "export"), device="cpu").predict(PAIRS))
    for ours in found:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("kind, pooling", [("modernbert", "cls"), ("modernbert", "mean"), ("xlm-roberta", "cls")])
def test_a_modular_head_scores_as_there_and_stays_when_it_is_exported(kind, pooling, tokenizers, tmp_path):
    """The module chains of Ettin's re-rankers, and the one that equals RoBERTa's head."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    base = saved(kind, tokenizers[kind], tmp_path / "base")
    encoder, torch_nn = Transformer(str(base), transformer_task="feature-extraction"), torch.nn
    h = encoder.get_embedding_dimension()
    norm = LayerNorm(h)
    torch_nn.init.normal_(norm.norm.bias)
    inner = [Dense(h, h, activation_function=torch_nn.Tanh())]
    if kind == "modernbert":
        inner = [Dense(h, h, bias=False, activation_function=torch_nn.GELU()), norm]
    last = Dense(h, 1, activation_function=torch_nn.Identity(), module_output_name="scores")
    modules = [encoder, Pooling(h, pooling_mode=pooling), *inner, last]
    model = CrossEncoder(modules=modules, activation_fn=torch_nn.Identity(), device="cpu")
    model.save_pretrained(str(tmp_path / "modular"))
    theirs = model.predict(PAIRS)
    shape, params = load_hf(str(tmp_path / "modular"))
    save_hf(str(tmp_path / "export"), shape, params, load_tokenizer(str(base)), "")
    found = [Reranker.from_pretrained(str(tmp_path / name)).predict(PAIRS) for name in ("modular", "export")]
    found.append(CrossEncoder(str(tmp_path / "export"), device="cpu").predict(PAIRS))
    names = [str(path.relative_to(tmp_path / "modular")) for path in tmp_path.glob("modular/**/*") if path.is_file()]
    for name in filter_repo_objects(names, allow_patterns=PARTS):  # the files that the Hub sends
        (tmp_path / "fetched" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "modular" / name, tmp_path / "fetched" / name)
    found.append(Reranker.from_pretrained(str(tmp_path / "fetched")).predict(PAIRS))
    for scores in found:
        np.testing.assert_allclose(scores, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())

    listed = tmp_path / "modular" / "modules.json"
    chain = json.loads(listed.read_text())
    listed.write_text(json.dumps([*chain[:-1], {**chain[-1], "type": "my_code.Dense"}]))
    with pytest.raises(InputError, match="its module my_code.Dense is custom code, which is not executed here"):
        load_hf(str(tmp_path / "modular"))
    listed.write_text(json.dumps([chain[0], chain[1], chain[-1]]))
    with pytest.raises(InputError, match=r"its head \((cls|mean), Identity\) is not supported for .*, only cls"):
        load_hf(str(tmp_path / "modular"))
    folder = tmp_path / "modular" / chain[-1]["path"]
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pytorch_model.bin is a pickle, .* convert it: python -c .*safetensors"):
        load_hf(str(tmp_path / "modular"))


def test_both_spellings_of_modernberts_config(tokenizers, tmp_path):
    directory = saved("modernbert", tokenizers["modernbert"], tmp_path / "model")
    path = directory / "config.json"
    newer = json.loads(path.read_text())
    assert "rope_parameters" in newer and "layer_types" in newer
    newer["rope_parameters"]["sliding_attention"]["rope_theta"] = 5.0
    path.write_text(json.dumps(newer))
    shape = load_hf(str(directory))[0]
    older = {name: value for name, value in newer.items() if name not in ("rope_parameters", "layer_types")}
    older |= {"global_rope_theta": 160000.0, "local_rope_theta": 5.0, "global_attn_every_n_layers": 3}
    path.write_text(json.dumps(older))
    assert load_hf(str(directory))[0] == shape and (shape.local_theta, shape.global_every) == (5.0, 3)


PERIODS = ["full_attention", "full_attention", "sliding_attention", "full_attention"]
SCALED = {kind: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1.0} for kind in PERIODS}


@pytest.mark.parametrize(
    "kind, fields, message",
    [
        ("modernbert", {}, r"the tokenizer has \d+ tokens .* word embeddings .*; use the tokenizer that"),
        ("modernbert", {"auto_map": {"AutoModel": "model.X"}}, "custom code .auto_map., which is not executed here"),
        ("modernbert", {"model_type": "deberta-v2"}, "'deberta-v2', not one of bert, distilbert, roberta, xlm-roberta, modernbert"),
        ("modernbert", {"layer_types": PERIODS}, "not repeat"),
        ("roberta", {"max_position_embeddings": 1}, "max_position_embeddings is -1, not a whole number from 1"),
        ("modernbert", {"rope_parameters": SCALED}, "rope_type is 'linear'"),
        ("modernbert", {"norm_bias": True}, "norm_bias is True; only False is supported"),
        ("modernbert", {"classifier_pooling": "max"}, "transformers cannot read .* 'classifier_pooling' expected one of"),
        ("modernbert", {"num_attention_heads": 4}, "hidden=36 / model.heads=4 is odd; rotary positions"),
        ("roberta", {"pad_token_id": 0}, "the tokenizer pads with id 1, but .* has pad_token_id 0, which its positions follow"),
        ("distilbert", {"activation": "relu"}, "activation is 'relu'; only 'gelu' is supported"),
        ("electra", {"embedding_size": 12}, "embedding_size is 12; only 36 is supported"),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_line(kind, fields, message, tokenizers, tmp_path):
    tokenizer = tokenizers["bert" if kind == "electra" else kind]
    directory = saved(kind, tokenizer, tmp_path / "model", more=0 if fields else -20)
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(InputError, match=message) as found:
        Reranker.from_pretrained(str(directory))
    assert "\n" not in str(found.value)


def test_one_token_type_takes_a_tokenizer_without_a_second(tokenizers, tmp_path):
    fits = saved("bert", tokenizers["bert"], tmp_path / "fits", type_vocab_size=1)
    assert np.ptp(Reranker.from_pretrained(str(fits)).predict(PAIRS)) > 0
    directory = saved("bert", tokenizers["distilbert"], tmp_path / "model", type_vocab_size=1)
    with pytest.raises(InputError, match="tokens and 2 token types, but .* word embeddings and 1 token types; use the"):
        Reranker.from_pretrained(str(directory))


@pytest.mark.parametrize(
    "kind, score, inner, longest",
    [
        ("xlm-roberta", "classifier.out_proj.weight", "classifier.dense.weight", 1028),
        ("distilbert", "classifier.weight", "pre_classifier.weight", 1030),
    ],
)
def test_weights_that_are_refused_in_one_line(kind, score, inner, longest, tokenizers, tmp_path):
    directory = saved(kind, tokenizers[kind], tmp_path / "model")
    with pytest.raises(InputError, match=f"max_length=2000: the model reads 8 to {longest} tokens"):
        Reranker.from_pretrained(str(directory), max_length=2000)
    weights = directory / "model.safetensors"
    tensors = load_file(weights)
    save_file({**tensors, score: np.zeros((3, 36), np.float32)}, weights)
    with pytest.raises(InputError, match="has no pooler and no score"):
        Reranker.from_pretrained(str(directory))
    save_file({**tensors, inner: np.zeros((36, 35), np.float32)}, weights)
    with pytest.raises(InputError, match=rf"{inner} has shape \(36, 35\), but \(36, 36\) by config.json"):
        Reranker.from_pretrained(str(directory))


def test_pickled_shards_are_refused_with_a_command_that_converts_them(tokenizers, tmp_path):
    import torch

    directory = saved("roberta", tokenizers["roberta"], tmp_path / "model")
    expected = Reranker.from_pretrained(str(directory)).predict(PAIRS)
    tensors = [*load_file(directory / "model.safetensors").items()]
    (directory / "model.safetensors").unlink()
    for number in (1, 2):
        shard = {name: torch.from_numpy(tensor) for name, tensor in tensors[number - 1 :: 2]}
        torch.save(shard, directory / f"pytorch_model-0000{number}-of-00002.bin")
    (directory / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(InputError, match="pytorch_model-00001-of-00002.bin is a pickle, ") as refused:
        Reranker.from_pretrained(str(directory))
    python, option, program = shlex.split(str(refused.value).partition("convert it: ")[2])
    subprocess.run([sys.executable, option, program], check=True)
    np.testing.assert_array_equal(Reranker.from_pretrained(str(directory)).predict(PAIRS), expected)
