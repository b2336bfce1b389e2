"""The cross-encoder as a torch module: what the exporters to ONNX and OpenVINO trace.

The same inputs and output as transformers' BertForSequenceClassification, so that the tools that load its exports load these.
Unlike there, the last layer is computed for [CLS] only, all that the score reads: a sixth of the work of MiniLM's six layers.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.errors import InputError
from harp_jax.model.bert import BertConfig

if TYPE_CHECKING:
    import torch

INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # [rows, length] int64 each
OUTPUT = "logits"  # [rows, 1] float32
MASKED = -1e9  # added to the attention scores of padding; bfloat16 holds it


def torch_ranker(config: BertConfig, params: dict[str, Any]) -> "torch.nn.Module":
    """A module from INPUTS to OUTPUT, in float32 and evaluation mode. InputError without a score head or without torch."""
    try:
        import torch
        from torch.nn import functional as F
    except ImportError as error:
        raise InputError("conversion to ONNX and OpenVINO needs torch; pip install 'harp_jax[onnx]'") from error
    if not {"pooler", "score"} <= params.keys():
        raise InputError("the model has no score head; convert a fine-tuned or pre-trained ranker")

    def linear(node: dict[str, Any]) -> tuple["torch.Tensor", "torch.Tensor"]:
        bias = np.asarray(node["bias"], np.float32).reshape(-1)
        kernel = np.asarray(node["kernel"], np.float32)
        # Kernels are [in, out], with heads apart in the attention: [in, heads, dim] and [heads, dim, out].
        flat = kernel.reshape(-1, len(bias))
        return torch.tensor(flat.T.copy()), torch.tensor(bias)

    def norm(node: dict[str, Any]) -> tuple["torch.Tensor", "torch.Tensor"]:
        return torch.tensor(np.asarray(node["scale"], np.float32)), torch.tensor(np.asarray(node["bias"], np.float32))

    bert = params["bert"]
    tables = {
        name: torch.tensor(np.asarray(bert["embeddings"][name]["embedding"], np.float32))
        for name in ("word", "position", "token_type")
    }
    first_norm = norm(bert["embeddings"]["norm"])
    layers = []
    for i in range(config.layers):
        node = bert[f"layer_{i}"]
        parts = {name: linear(node["attention"][name]) for name in ("query", "key", "value", "output")}
        parts |= {"up": linear(node["mlp"]["up"]), "down": linear(node["mlp"]["down"])}
        layers.append((parts, norm(node["attention"]["norm"]), norm(node["mlp"]["norm"])))
    pooler, score = linear(params["pooler"]), linear(params["score"])

    class TorchRanker(torch.nn.Module):
        def forward(
            self, input_ids: "torch.Tensor", attention_mask: "torch.Tensor", token_type_ids: "torch.Tensor"
        ) -> "torch.Tensor":
            x = F.embedding(input_ids, tables["word"]) + F.embedding(token_type_ids, tables["token_type"])
            x = self.normed(x + tables["position"][: input_ids.shape[1]], first_norm)
            mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * MASKED
            for number, (parts, attention_norm, mlp_norm) in enumerate(layers, 1):
                # From the whole row, or in the last layer from [CLS] alone.
                at = x[:, :1] if number == len(layers) else x
                q, k, v = (
                    self.heads(F.linear(y, *parts[name])) for y, name in ((at, "query"), (x, "key"), (x, "value"))
                )
                read = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
                at = self.normed(at + F.linear(read, *parts["output"]), attention_norm)
                x = self.normed(at + F.linear(F.gelu(F.linear(at, *parts["up"])), *parts["down"]), mlp_norm)
            return F.linear(torch.tanh(F.linear(x[:, 0], *pooler)), *score)

        def heads(self, y: "torch.Tensor") -> "torch.Tensor":
            """[rows, length, hidden] → [rows, heads, length, head_dim]."""
            return y.unflatten(-1, (config.heads, config.head_dim)).transpose(1, 2)

        def normed(self, y: "torch.Tensor", weights: tuple["torch.Tensor", "torch.Tensor"]) -> "torch.Tensor":
            return F.layer_norm(y, (config.hidden,), *weights, eps=config.layer_norm_eps)

    return TorchRanker().eval()


def example_inputs() -> dict[str, "torch.Tensor"]:
    """INPUTS for tracing: two rows of seven tokens, the second padded."""
    import torch

    ids = torch.zeros(2, 7, dtype=torch.int64)
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return dict(zip(INPUTS, (ids, mask, torch.zeros(2, 7, dtype=torch.int64))))
