"""Writes rankers and encoders of vectors for ONNX Runtime and OpenVINO, under the names that transformers and TEI look for.

`onnx/model.onnx` and `openvino/openvino_model.xml`; in int8 `onnx/model_quantized.onnx` and
`openvino/openvino_model_qint8_quantized.xml`.
"""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.checkpoints.huggingface import hf_tensors
from harp_jax.input.packing import Pair, pair_rows
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.encoders.table import ENCODERS
from harp_jax.text.tokenizer import Tokenizer, quiet

if TYPE_CHECKING:
    import torch

FILES = {
    ("onnx", False): "onnx/model.onnx",
    ("onnx", True): "onnx/model_quantized.onnx",
    ("openvino", False): "openvino/openvino_model.xml",
    ("openvino", True): "openvino/openvino_model_qint8_quantized.xml",
}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # [rows, length] int64 each; see `inputs`
OUTPUT = "logits"  # [rows, 1] float32
HIDDEN = "last_hidden_state"  # [rows, length, hidden] float32, the output of an encoder without a score head
OPSET = 17
TELEMETRY = "openvino_telemetry"


def inputs(config: EncoderConfig) -> tuple[str, ...]:
    """The names of a model's inputs: token types only if the encoder has more than one."""
    return INPUTS if config.type_vocab > 1 else INPUTS[:2]


def model_files(backend: str, int8: bool) -> tuple[str, ...]:
    """The files of a model in a format; OpenVINO has a separate file of weights."""
    name = FILES[backend, int8]
    return (name, f"{name.removesuffix('.xml')}.bin") if name.endswith(".xml") else (name,)


def needed(package: str, extra: str) -> ModuleType:
    """Imports a package. If it is missing, raises InputError with the extra that installs it."""
    with needs({"onnx": "ONNX", "openvino": "OpenVINO"}[extra], package, extra), without_telemetry():
        return importlib.import_module(package)


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """Hides `openvino_telemetry` from imports: OpenVINO's packages would fork a process that reports their use."""
    kept = sys.modules.get(TELEMETRY)
    sys.modules[TELEMETRY] = kept  # type: ignore[assignment]
    try:
        yield
    finally:
        if kept is None:
            sys.modules.pop(TELEMETRY, None)


@contextlib.contextmanager
def without_tensorflow() -> Iterator[None]:
    """Hides a loaded TensorFlow: OpenVINO's converter would ask whether the model is TensorFlow's, and fail on Python 3.13."""
    kept = sys.modules.pop("tensorflow", None)
    try:
        yield
    finally:
        if kept is not None:
            sys.modules["tensorflow"] = kept


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns a runtime's error for an unreadable model file into an InputError."""
    try:
        yield
    except Exception as error:  # RuntimeError, and the runtimes' own classes
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read ({said}); write it again with harp export") from error


def output_of(params: dict[str, Any]) -> str:
    return OUTPUT if "score" in params else HIDDEN


def torch_model(config: EncoderConfig, params: dict[str, Any]) -> "torch.nn.Module":
    """Hugging Face's classifier, or encoder, as a torch module from `inputs` to `output_of`, float32, for the exporters to trace.
    If the encoder names the module before the last layer's MLP, a classifier computes that MLP for the first token only, which is
    all that the score reads. InputError without torch."""
    with needs("conversion to ONNX and OpenVINO", "torch", "onnx"):
        import torch
    import transformers

    encoder, output = ENCODERS[config.model_type], output_of(params)
    scores = output == OUTPUT
    fields = transformers.AutoConfig.for_model(**encoder.to_config(config), num_labels=1)
    auto = transformers.AutoModelForSequenceClassification if scores else transformers.AutoModel
    model = auto.from_config(fields, attn_implementation="sdpa")
    tensors = hf_tensors(config, {name: tree for name, tree in params.items() if name != "mlm"})
    root = "" if scores else f"{model.base_model_prefix}."  # AutoModel's names lack it; its pooler is not computed
    state = {name.removeprefix(root): torch.tensor(tensor) for name, tensor in tensors.items()}
    model.load_state_dict({name: state.get(name, 0 * tensor) for name, tensor in model.state_dict().items()})
    if scores and encoder.last_attention:
        last = model.get_submodule(encoder.last_attention.format(config.layers - 1))
        last.register_forward_hook(lambda _module, _inputs, output: (output[0][:, :1], *output[1:]))

    class Ranker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: "torch.Tensor") -> "torch.Tensor":
            return self.model(**dict(zip(inputs(config), given)))[output]

    return Ranker().eval()


def example_inputs(config: EncoderConfig) -> tuple["torch.Tensor", ...]:
    """The inputs for tracing: two rows of seven tokens, the second padded."""
    import torch

    ids, mask = torch.zeros(2, 7, dtype=torch.int64), torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return (ids, mask, ids)[: len(inputs(config))]


def write_onnx(directory: str, config: EncoderConfig, params: dict[str, Any], int8: bool = False) -> None:
    """Adds onnx/model.onnx (float32) and, with `int8`, onnx/model_quantized.onnx to a directory. int8: weights and, at run time,
    the inputs of the matrix products; no texts are needed. InputError without the packages."""
    needed("onnx", "onnx")
    module, output = torch_model(config, params), output_of(params)
    import torch

    os.makedirs(os.path.join(directory, "onnx"), exist_ok=True)
    path = os.path.join(directory, FILES["onnx", False])
    names = inputs(config)
    axes = {name: {0: "rows", 1: "length"} for name in names}
    with quiet(), warnings.catch_warnings(action="ignore"):  # about tracing
        torch.onnx.export(
            module, example_inputs(config), path, input_names=list(names), output_names=[output],
            dynamic_axes={**axes, output: {0: "rows"} if output == OUTPUT else {0: "rows", 1: "length"}}, opset_version=OPSET,
            dynamo=False,  # the other exporter needs a further package
        )  # fmt: skip
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        # Weights of 7 bits: processors without VNNI add two products in 16 bits, which overflow with 8. A scale per column rounds
        # less than one per matrix.
        chosen = {"weight_type": QuantType.QInt8, "reduce_range": True, "per_channel": True}
        quantize_dynamic(path, os.path.join(directory, FILES["onnx", True]), **chosen)


def write_openvino(
    directory: str,
    config: EncoderConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    calibration: Sequence[Pair] = (),
) -> None:
    """Adds openvino/openvino_model.xml (float32) and, with `calibration`, the model in int8 to a directory. int8: weights and
    activations, with ranges measured on the pairs of `calibration` (ids of query and document, truncated to a row; a few hundred
    like those to rank), or on each text of a pair if the model is an encoder of single texts. InputError without the packages."""
    openvino = needed("openvino", "openvino")
    os.makedirs(os.path.join(directory, "openvino"), exist_ok=True)
    silent = warnings.catch_warnings(action="ignore")
    with without_telemetry(), without_tensorflow(), quiet(), silent:  # the first call imports more modules
        model = openvino.convert_model(torch_model(config, params), example_input=example_inputs(config))
    model.outputs[0].get_tensor().set_names({output_of(params)})
    for given, name in zip(model.inputs, inputs(config)):
        given.get_tensor().set_names({name})
    model.reshape({name: openvino.PartialShape([-1, -1]) for name in inputs(config)})
    openvino.save_model(model, os.path.join(directory, FILES["openvino", False]), compress_to_fp16=False)
    if calibration:
        nncf = needed("nncf", "openvino")
        if output_of(params) == OUTPUT:
            rows = [feed(config, *pair_rows([pair], 1, 0, tokenizer)) for pair in calibration]
        else:
            start, end = tokenizer.template.start, tokenizer.template.alone
            lines = [np.array([[*start, *text, *end]]) for pair in calibration for text in pair]
            rows = [feed(config, line, np.array([line.size]), np.array([line.size])) for line in lines]
        with without_telemetry():
            more = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)  # like ONNX's reduce_range
            kind, size = nncf.ModelType.TRANSFORMER, len(rows)
            model = nncf.quantize(
                model, nncf.Dataset(rows), model_type=kind, subset_size=size, advanced_parameters=more
            )
        openvino.save_model(model, os.path.join(directory, FILES["openvino", True]), compress_to_fp16=False)


def feed(config: EncoderConfig, tokens: np.ndarray, second: np.ndarray, end: np.ndarray) -> dict[str, np.ndarray]:
    """The model's inputs [rows, length] int64 from the arrays of `pair_rows`."""
    position = np.arange(tokens.shape[1])
    real = position < end[:, None]
    types = real & (position >= second[:, None])
    return dict(zip(inputs(config), (tokens.astype(np.int64), real.astype(np.int64), types.astype(np.int64))))
