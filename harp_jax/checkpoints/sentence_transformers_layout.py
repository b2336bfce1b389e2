"""The files with which sentence-transformers 6 describes a CrossEncoder (`modules.json` and the two that belong to it).

Older versions read the activation from config.json's `sentence_transformers` key, which `huggingface` writes, and ignore these.
"""

import json
import os
from typing import Any

from harp_jax.base.files import replacing

IDENTITY = "torch.nn.modules.linear.Identity"  # the score is a raw logit; CrossEncoder's default would be a sigmoid
FILES = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json")


def write_layout(directory: str, max_length: int) -> None:
    """Writes FILES to an export with a score head. `max_length`: tokens of query and document with the special ones."""
    module = "sentence_transformers.base.modules.transformer.Transformer"
    contents: tuple[Any, ...] = (
        [{"idx": 0, "name": "0", "path": "", "type": module}],
        {"model_type": "CrossEncoder", "activation_fn": IDENTITY, "prompts": {}, "default_prompt_name": None},
        {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
            # Text Embeddings Inference does not start where this file lacks it.
            "max_seq_length": max_length,
        },
    )
    for name, content in zip(FILES, contents, strict=True):
        with replacing(os.path.join(directory, name)) as file:
            json.dump(content, file, indent=2)
            file.write("\n")
