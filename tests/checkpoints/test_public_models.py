"""Directories as others publish them: heads of sentence-transformers, both spellings of config.json, and rejected ones."""

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
from huggingface_hub.utils import filter_repo_objects
from safetensors.numpy import load_file, save_file

from data_pipeline.output.vocabulary import train_unigram
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import PARTS
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.start import load_ranker
from harp_jax.config import finetune, pretrain
from harp_jax.ranking.rerank import predict
from harp_jax.ranking.scorers import CrossEncoderScorer
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.pretrain import pretrain_stage
from tests.support.architectures import close, saved
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


def checked_scores(directory: Path) -> np.ndarray:
    """CrossEncoder's scores of PAIRS; ours, and those of our export here and in CrossEncoder, are the same."""
    import torch
    from sentence_transformers import CrossEncoder

    theirs = CrossEncoder(str(directory), device="cpu").predict(PAIRS, activation_fn=torch.nn.Identity())
    export = f"{directory}-export"
    save_hf(export, *load_hf(str(directory)), load_tokenizer(str(directory)), "")
    for path in (str(directory), export):
        close(Reranker.from_pretrained(path).predict(PAIRS), theirs, 1e-5, path)
    close(CrossEncoder(export, device="cpu").predict(PAIRS), theirs, 1e-5, "export in CrossEncoder")
    return theirs


@pytest.mark.parametrize("kind", ["modernbert-mean", "roberta", "xlm-roberta", "distilbert", "bert"])
def test_a_cross_encoder_of_transformers_scores_as_there(kind, tokenizers, tmp_path):
    """So do the initial models of pre-training and (with its head) of fine-tuning."""
    tokenizer = tokenizers[kind.partition("-mean")[0]]
    directory = saved(kind, tokenizer, tmp_path / "model", more=30)  # more embeddings than tokens
    theirs = checked_scores(directory)
    ours = load_file(tmp_path / "model-export" / "model.safetensors")
    assert ours.keys() == load_file(directory / "model.safetensors").keys()
    tuned, first = finetune(), pretrain()
    tuned.init_head = "pretrained"
    for config in (tuned, first):
        config.init, config.dtype = str(directory), "float32"
    for stage in (finetune_stage(tuned, with_data=False), pretrain_stage(first, with_data=False)):
        start = stage.start(stage.encoder, jax.random.key(9))
        scorer = CrossEncoderScorer(stage.encoder, start, stage.tokenizer, tuned.row_length)
        close(predict(scorer, PAIRS), theirs, 1e-5, "initial model")


@pytest.mark.parametrize(
    "kind, tokenizer", [("bert", "unigram"), ("bert", "gemma"), ("bert", "bare"), ("xlm-roberta", "gemma")]
)
def test_token_types_are_those_that_the_tokenizer_passes(kind, tokenizer, tmp_path):
    """Our Unigram with two types; a general class and a BertTokenizer that pass none to a BERT with two."""
    files = str(tmp_path / "tokenizer")
    if tokenizer == "unigram":
        train_unigram(iter(TEXTS), 70).save(files)
    elif tokenizer == "gemma":
        save_trained("gemma", files, TEXTS, 300)
    else:
        replace(small_tokenizer(), token_types=False).save(files)
    directory = saved(kind, files, tmp_path / "model")
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
    close(Reranker.from_pretrained(str(tmp_path / "fetched")).predict(PAIRS), theirs, 1e-5, "fetched")

    chain = json.loads((modular / "modules.json").read_text())
    custom = [*chain[:-1], {**chain[-1], "type": "my_code.Dense"}]
    for changed, message in (
        (custom, "its module my_code.Dense is custom code, which is not executed here"),
        ([chain[0], chain[1], chain[-1]], r"its head \((cls|mean), Identity\) is not supported for .*, only cls"),
    ):
        (modular / "modules.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=message):
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
        ("modernbert", {}, r"the tokenizer has \d+ tokens .* word embeddings .*; use the tokenizer that"),
        ("modernbert", {"auto_map": {"AutoModel": "model.X"}}, "custom code .auto_map., which is not executed here"),
        ("modernbert", {"model_type": "deberta-v2"}, "'deberta-v2', not one of bert, distilbert, roberta, xlm-roberta, modernbert"),
        ("modernbert", {"layer_types": PERIODS}, "not repeat"),
        ("modernbert", {"rope_parameters": SCALED}, "rope_type is 'linear'"),
        ("modernbert", {"norm_bias": True}, "norm_bias is True; only False is supported"),
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
    with pytest.raises(InputError, match=message) as refused:
        load_ranker(str(directory))
    assert "\n" not in str(refused.value)


def test_one_token_type_takes_a_tokenizer_without_a_second(tokenizers, tmp_path):
    fits = saved("bert", tokenizers["bert"], tmp_path / "fits", type_vocab_size=1)
    assert np.ptp(Reranker.from_pretrained(str(fits)).predict(PAIRS)) > 0
    directory = saved("bert", tokenizers["distilbert"], tmp_path / "model", type_vocab_size=1)
    with pytest.raises(InputError, match="tokens and 2 token types, but .* word embeddings and 1 token types; use the"):
        load_ranker(str(directory))


def test_a_length_that_is_too_large_and_a_model_without_a_score_are_refused(tokenizers, tmp_path):
    directory = str(saved("xlm-roberta", tokenizers["xlm-roberta"], tmp_path / "model"))
    with pytest.raises(InputError, match="max_length=2000: the model reads 8 to 1028 tokens"):
        Reranker.from_pretrained(directory, max_length=2000)
    tensors = load_file(f"{directory}/model.safetensors") | {
        "classifier.out_proj.weight": np.zeros((3, 36), np.float32)
    }
    save_file(tensors, f"{directory}/model.safetensors")
    with pytest.raises(InputError, match="has no pooler and no score"):
        Reranker.from_pretrained(directory)


def test_pickled_shards_are_refused_with_a_command_that_converts_them(tokenizers, tmp_path):
    import torch

    directory = saved("roberta", tokenizers["roberta"], tmp_path / "model")
    expected, tensors = load_ranker(str(directory))[1], [*load_file(directory / "model.safetensors").items()]
    (directory / "model.safetensors").unlink()
    for number in (1, 2):
        shard = {name: torch.from_numpy(tensor) for name, tensor in tensors[number - 1 :: 2]}
        torch.save(shard, directory / f"pytorch_model-0000{number}-of-00002.bin")
    (directory / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(InputError, match="pytorch_model-00001-of-00002.bin is a pickle, ") as refused:
        load_ranker(str(directory))
    python, option, program = shlex.split(str(refused.value).partition("convert it: ")[2])
    subprocess.run([sys.executable, option, program], check=True)
    jax.tree.map(np.testing.assert_array_equal, load_ranker(str(directory))[1], expected)
