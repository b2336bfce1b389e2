"""The cross-encoder as a torch module: what the exporters to ONNX and OpenVINO trace.

The same inputs and output as transformers' BertForSequenceClassification, so that the tools that load its exports load these.
Unlike there, the last layer is computed for [CLS] only, all that the score reads: a sixth of the work of MiniLM's six layers.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.model.encoders.encoder import EncoderShape

if TYPE_CHECKING:
    import torch

INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # [rows, length] int64 each
OUTPUT = "logits"  # [rows, 1] float32
MASKED = -1e9  # added to the attention scores of padding; bfloat16 holds it


def torch_ranker(config: EncoderShape, params: dict[str, Any]) -> "torch.nn.Module":
    """A module from INPUTS to OUTPUT, in float32 and evaluation mode. InputError without a score head or without torch."""
    with needs("conversion to ONNX and OpenVINO", "torch", "onnx"):
        import torch
        from torch.nn import functional as F
    if not {"pooler", "score"} <= params.keys():
        raise InputError("the model has no score head; convert a fine-tuned or pre-trained ranker")

    def linear(node: dict[str, Any]) -> "torch.nn.Linear":
        bias = np.asarray(node["bias"], np.float32).reshape(-1)
        # Kernels are [in, out], with heads apart in the attention: [in, heads, dim] and [heads, dim, out].
        kernel = np.asarray(node["kernel"], np.float32).reshape(-1, len(bias))
        layer = torch.nn.Linear(*kernel.shape)
        layer.weight.data, layer.bias.data = torch.tensor(kernel.T.copy()), torch.tensor(bias)
        return layer

    def norm(node: dict[str, Any]) -> "torch.nn.LayerNorm":
        layer = torch.nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        for name, ours in (("weight", "scale"), ("bias", "bias")):
            getattr(layer, name).data = torch.tensor(np.asarray(node[ours], np.float32))
        return layer

    def table(name: str) -> "torch.nn.Embedding":
        rows = torch.tensor(np.asarray(params["encoder"]["embeddings"][name]["embedding"], np.float32))
        return torch.nn.Embedding.from_pretrained(rows)

    class Layer(torch.nn.Module):
        def __init__(self, node: dict[str, Any]) -> None:
            super().__init__()
            attention, mlp = node["attention"], node["mlp"]
            self.query, self.key = linear(attention["query"]), linear(attention["key"])
            self.value, self.output = linear(attention["value"]), linear(attention["output"])
            self.up, self.down = linear(mlp["up"]), linear(mlp["down"])
            self.attention_norm, self.mlp_norm = norm(attention["norm"]), norm(mlp["norm"])

        def forward(self, at: "torch.Tensor", x: "torch.Tensor", mask: "torch.Tensor") -> "torch.Tensor":
            """The states [rows, positions, hidden] of the positions `at`, which attend to all of `x`."""
            q, k, v = self.heads(self.query(at)), self.heads(self.key(x)), self.heads(self.value(x))
            read = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
            at = self.attention_norm(at + self.output(read))
            return self.mlp_norm(at + self.down(F.gelu(self.up(at))))

        def heads(self, y: "torch.Tensor") -> "torch.Tensor":
            """[rows, length, hidden] → [rows, heads, length, head_dim]."""
            return y.unflatten(-1, (config.heads, config.head_dim)).transpose(1, 2)

    class TorchRanker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.position, self.token_type = table("word"), table("position"), table("token_type")
            self.norm = norm(params["encoder"]["embeddings"]["norm"])
            self.layers = torch.nn.ModuleList(Layer(params["encoder"][f"layer_{i}"]) for i in range(config.layers))
            self.pooler, self.score = linear(params["pooler"]), linear(params["score"])

        def forward(
            self, input_ids: "torch.Tensor", attention_mask: "torch.Tensor", token_type_ids: "torch.Tensor"
        ) -> "torch.Tensor":
            position = self.position(torch.arange(input_ids.shape[1]))
            x = self.norm(self.word(input_ids) + self.token_type(token_type_ids) + position)
            mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * MASKED
            for number, layer in enumerate(self.layers, 1):
                x = layer(x[:, :1] if number == len(self.layers) else x, x, mask)
            return self.score(torch.tanh(self.pooler(x[:, 0])))

    return TorchRanker().eval()


def example_inputs() -> dict[str, "torch.Tensor"]:
    """INPUTS for tracing: two rows of seven tokens, the second padded."""
    import torch

    ids = torch.zeros(2, 7, dtype=torch.int64)
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return dict(zip(INPUTS, (ids, mask, torch.zeros(2, 7, dtype=torch.int64))))
