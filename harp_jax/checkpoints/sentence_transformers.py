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
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    poolings = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    query, document = config.prompts or ("", "")
    files = {
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
            "prompts": {"query": query, "document": document},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        LENGTH: {"max_seq_length": config.row_length, "do_lower_case": False},
    }

    def write_layout(folder: str) -> None:
        for path, _ in modules[1:]:
            os.makedirs(os.path.join(folder, path))
        for name, content in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
        if more is not None:
            more(folder)

    save_hf(directory, shape, {"encoder": params["encoder"]}, tokenizer, card, more=write_layout)


def embedding_of(config: ConfigDict) -> Embedding:
    """How the training of `config` computes vectors."""
    query, document = config.prompts or ("", "")
    return Embedding(config.pooling, ("Normalize",), (), (query, document), config.row_length, recorded=True)


def recorded_embedding(directory: str, hidden: int) -> Embedding:
    """`modular.embedding`, or that of a training workdir."""
    config = read_config(directory) if is_workdir(directory) else ConfigDict()
    return embedding_of(config) if config.get("stage") == STAGE else embedding(directory, hidden)
