"""Writes and reads trained vectors as a sentence-transformers directory: Transformer, Pooling, Normalize, and the prompts."""

import json
import os
from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.modular import LENGTH, MODULES, PROMPTS, Embedding, embedding
from harp_jax.checkpoints.recorded import read_config
from harp_jax.checkpoints.start import is_workdir
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.text.tokenizer import Tokenizer

STAGE = "retriever"
PACKAGE = "sentence_transformers.models"  # where sentence-transformers 2 to 6 find the modules
SIDES = ("query", "document")  # names of the prompts


def layout(shape: EncoderConfig, prompts: tuple[str, ...], max_length: int) -> dict[str, Any]:
    """The files of sentence-transformers by name; `max_length` tokens of a text are read, including special tokens."""
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    poolings = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {
        MODULES: [
            {"idx": n, "name": str(n), "path": path, "type": f"{PACKAGE}.{kind}"}
            for n, (path, kind) in enumerate(modules)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": shape.hidden,
            **{f"pooling_mode_{name}": name.startswith(shape.pooling) and "sqrt" not in name for name in poolings},
            "include_prompt": True,
        },
        PROMPTS: {
            "prompts": dict(zip(SIDES, prompts or ("", ""))),
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        LENGTH: {"max_seq_length": max_length, "do_lower_case": False},
    }


def save_vectors(
    directory: str,
    shape: EncoderConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    config: ConfigDict,
    card: str,
    more: Callable[[str], None] | None = None,
) -> None:
    """Writes a trained bi-encoder (`config` of its training); AutoModel loads it, too. `more`: as in `huggingface.save_hf`."""

    def write_layout(folder: str) -> None:
        os.makedirs(os.path.join(folder, "2_Normalize"))
        for name, content in layout(shape, config.prompts, config.row_length).items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
        if more is not None:
            more(folder)

    save_hf(directory, shape, {"encoder": params["encoder"]}, tokenizer, card, more=write_layout)


def embedding_of(config: ConfigDict) -> Embedding:
    """How the training of `config` computes vectors."""
    prompts = tuple(config.prompts) or ("", "")
    return Embedding(config.pooling, ("Normalize",), (), (prompts[0], prompts[1]), config.row_length, recorded=True)


def recorded_embedding(directory: str, hidden: int) -> Embedding:
    """`modular.embedding`, or that of a training workdir."""
    config = read_config(directory) if is_workdir(directory) else ConfigDict()
    return embedding_of(config) if config.get("stage") == STAGE else embedding(directory, hidden)
