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
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.checkpoints.torch_ranker import INPUTS, OUTPUT, example_inputs, torch_ranker
from harp_jax.input.pair_rows import Pair, pair_rows
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
