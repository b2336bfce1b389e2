"""A ranker in the formats of ONNX Runtime and OpenVINO, where transformers, sentence-transformers and TEI look for them.

`onnx/model.onnx` and `openvino/openvino_model.xml`; in int8 `onnx/model_quantized.onnx` and
`openvino/openvino_model_qint8_quantized.xml`.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.input.packing import Pair, pair_rows
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.text.tokenizer import Tokenizer

FILES = {
    ("onnx", False): "onnx/model.onnx",
    ("onnx", True): "onnx/model_quantized.onnx",
    ("openvino", False): "openvino/openvino_model.xml",
    ("openvino", True): "openvino/openvino_model_qint8_quantized.xml",
}
OPSET = 17
TELEMETRY = "openvino_telemetry"


def model_files(backend: str, int8: bool) -> tuple[str, ...]:
    """The files of a model in a format; OpenVINO's graph has its weights beside it."""
    name = FILES[backend, int8]
    return (name, f"{name.removesuffix('.xml')}.bin") if name.endswith(".xml") else (name,)


def needed(package: str, extra: str) -> ModuleType:
    """The imported package. InputError that names the extra which brings it."""
    with needs({"onnx": "ONNX", "openvino": "OpenVINO"}[extra], package, extra), without_telemetry():
        return importlib.import_module(package)


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """Hides `openvino_telemetry` from what is imported within: OpenVINO's packages fork a process with it that reports their use.

    They do without where it is not installed. A program that has imported it itself keeps it.
    """
    kept = sys.modules.get(TELEMETRY)
    sys.modules[TELEMETRY] = kept  # type: ignore[assignment]
    try:
        yield
    finally:
        if kept is None:
            sys.modules.pop(TELEMETRY, None)


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns what a runtime raises for a model file that it cannot read into an InputError."""
    try:
        yield
    except Exception as error:  # RuntimeError, and classes of their own
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read ({said}); write it again with harp export") from error


def write_onnx(directory: str, config: EncoderShape, params: dict[str, Any], int8: bool = False) -> None:
    """Adds onnx/model.onnx (float32) and, with `int8`, onnx/model_quantized.onnx to a directory.

    int8: weights and, at run time, the inputs of the matrix products; no texts are needed. InputError without the packages.
    """
    needed("onnx", "onnx")
    if int8:
        needed("onnxruntime", "onnx")
    module = torch_ranker(config, params)
    import torch

    os.makedirs(os.path.join(directory, "onnx"), exist_ok=True)
    path = os.path.join(directory, FILES["onnx", False])
    axes = {name: {0: "rows", 1: "length"} for name in INPUTS}
    torch.onnx.export(
        module,
        tuple(example_inputs().values()),
        path,
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes={**axes, OUTPUT: {0: "rows"}},
        opset_version=OPSET,
        dynamo=False,  # the other exporter needs a further package
    )
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(path, os.path.join(directory, FILES["onnx", True]), weight_type=QuantType.QInt8)


def write_openvino(
    directory: str, config: EncoderShape, params: dict[str, Any], tokenizer: Tokenizer, calibration: Sequence[Pair] = ()
) -> None:
    """Adds openvino/openvino_model.xml (float32) and, with `calibration`, the model in int8 to a directory.

    int8: weights and activations, whose ranges are those of the pairs of `calibration` (ids of query and document, truncated
    to a row; a few hundred of the texts to be ranked). InputError without the packages.
    """
    openvino = needed("openvino", "openvino")
    if calibration:
        needed("nncf", "openvino")
    os.makedirs(os.path.join(directory, "openvino"), exist_ok=True)
    model = openvino_model(config, params)
    openvino.save_model(model, os.path.join(directory, FILES["openvino", False]), compress_to_fp16=False)
    if calibration:
        quantized = quantized_openvino(model, tokenizer, calibration)
        openvino.save_model(quantized, os.path.join(directory, FILES["openvino", True]), compress_to_fp16=False)


def openvino_model(config: EncoderShape, params: dict[str, Any]) -> Any:
    """An `openvino.Model` from INPUTS, of any rows and length, to OUTPUT."""
    openvino = needed("openvino", "openvino")
    with without_telemetry():  # some modules are imported by the first call
        model = openvino.convert_model(torch_ranker(config, params), example_input=example_inputs())
    model.outputs[0].get_tensor().set_names({OUTPUT})
    for given, name in zip(model.inputs, INPUTS):
        given.get_tensor().set_names({name})
    model.reshape({name: openvino.PartialShape([-1, -1]) for name in INPUTS})
    return model


def quantized_openvino(model: Any, tokenizer: Tokenizer, calibration: Sequence[Pair]) -> Any:
    """The model (`openvino.Model`) in int8, calibrated on the pairs one by one."""
    nncf = needed("nncf", "openvino")
    rows = [feed(*pair_rows([pair], 1, 0, tokenizer)) for pair in calibration]
    with without_telemetry():
        kind = nncf.ModelType.TRANSFORMER
        return nncf.quantize(model, nncf.Dataset(rows), model_type=kind, subset_size=len(rows))


def feed(tokens: np.ndarray, second: np.ndarray, end: np.ndarray) -> dict[str, np.ndarray]:
    """INPUTS [rows, length] int64 of the arrays of `pair_rows`."""
    position = np.arange(tokens.shape[1])
    real = position < end[:, None]
    types = real & (position >= second[:, None])
    return dict(zip(INPUTS, (tokens.astype(np.int64), real.astype(np.int64), types.astype(np.int64))))


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
