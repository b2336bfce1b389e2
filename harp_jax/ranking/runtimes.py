"""Models on OpenVINO and ONNX Runtime (CPU), without XLA compilation; the choice of `auto`.

Model files come from the export (`harp export --format=…`), or are converted once into the cache.
"""

import functools
import hashlib
import importlib.util
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUMS, beside, cache_directory, check_sums, intact, listed_sums, write_sums
from harp_jax.checkpoints.onnx_openvino import FILES, model_files, needed, readable, write_onnx, write_openvino
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.ranking.options import OFFERED
from harp_jax.text.tokenizer import Tokenizer

PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
CONVERSION = "3"  # version of `torch_model`; raise it to convert again

# Indices of the items, and the model's inputs [rows, length].
Batch = tuple[np.ndarray, dict[str, np.ndarray]]
# The same indices; logits [rows, 1] or hidden states [rows, length, hidden] float32.
Result = tuple[np.ndarray, np.ndarray]
Runtime = Callable[[Iterable[Batch]], Iterator[Result]]  # results in any order


def chosen_backend(name: str, dtype: str, directory: str) -> str:
    """Resolves `auto` to the fastest installed backend that computes in `dtype` and has a model; checks other names. Raises
    InputError for a backend that is unknown, does not compute in `dtype`, or is not installed."""
    if name != "auto":
        if dtype not in OFFERED.get(name, ()):
            offered = "; ".join(f"{backend}: {', '.join(dtypes)}" for backend, dtypes in OFFERED.items())
            raise InputError(f"--backend={name} does not support {dtype}; choose from {offered}; or auto")
        if name != "jax":
            needed(PACKAGES[name], name)
        return name
    for backend, dtypes in OFFERED.items():
        if backend == "jax" and dtype in dtypes:
            return backend
        if dtype in dtypes and jax.default_backend() == "cpu" and _installed(PACKAGES[backend]):
            converted = os.path.isfile(os.path.join(directory, FILES[backend, dtype == "int8"]))
            if converted or (dtype != "int8" and _installed("torch") and (backend != "onnx" or _installed("onnx"))):
                return backend
    raise InputError(
        f"no installed backend computes {directory} in {dtype}; add it to the export with harp export --format=openvino "
        "--int8, or leave --dtype out"
    )


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def model_file(
    backend: str, dtype: str, directory: str, config: EncoderConfig, params: dict[str, Any], tokenizer: Tokenizer
) -> str:
    """Path of a backend's model file, from the export or converted into the cache. A file that is not listed in SHA256SUMS may come
    from other weights: if torch is installed, converts the weights instead. Raises InputError for changed files, and for int8 that
    was not exported or is not listed."""
    name = FILES[backend, dtype == "int8"]
    path = os.path.join(directory, name)
    if os.path.isfile(path):
        listed = listed_sums(directory)
        if name in listed:
            check_sums(directory, model_files(backend, dtype == "int8"))
            return path
        if dtype == "int8" or not _installed("torch"):
            if listed:
                raise InputError(
                    f"{path} is not listed in {SUMS}, so it may come from other weights; write it again with harp export "
                    f"--format={backend}"
                )
            return path
    if dtype == "int8":
        raise InputError(f"{directory} has no {name}; write it with harp export --format={backend} --int8")
    converted_dir = os.path.join(cache_directory("converted"), _identity(config, params))
    if not intact(os.path.join(converted_dir, backend)):
        temporary = beside(f"{converted_dir}.{backend}")
        try:
            os.makedirs(temporary, mode=0o700)  # as private as the model may be
            if backend == "onnx":
                write_onnx(temporary, config, params)
            else:
                write_openvino(temporary, config, params, tokenizer)
            converted = os.path.join(temporary, backend)
            write_sums(converted, os.listdir(converted))
            os.makedirs(converted_dir, mode=0o700, exist_ok=True)
            if not intact(os.path.join(converted_dir, backend)):  # unless another process was faster
                shutil.rmtree(os.path.join(converted_dir, backend), ignore_errors=True)
                os.replace(converted, os.path.join(converted_dir, backend))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return os.path.join(converted_dir, name)


def _identity(config: EncoderConfig, params: dict[str, Any]) -> str:
    digest = hashlib.sha256(f"{CONVERSION} {config}".encode())
    for leaf in jax.tree.leaves({name: params[name] for name in ("encoder", "pooler", "score") if name in params}):
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()[:24]


@functools.cache
def _openvino_core() -> Any:
    """OpenVINO, once per process and kept until its end: it gives the thread that loads it another stack for signal handlers, which
    it unmaps without replacement when another thread frees it. The next signal would then end the process (OpenVINO 2026.4)."""
    return needed("openvino", "openvino").Core()


def openvino_runtime(path: str, dtype: str) -> Runtime:
    """Runs an OpenVINO model; OpenVINO chooses the number of parallel batches. float32 and bfloat16 set the inference precision; an
    int8 model computes its remaining layers in the machine's default."""
    openvino = needed("openvino", "openvino")
    precision = {"float32": "f32", "bfloat16": "bf16"}.get(dtype)
    options = {"PERFORMANCE_HINT": "THROUGHPUT", **({"INFERENCE_PRECISION_HINT": precision} if precision else {})}
    with readable(path):
        model = _openvino_core().compile_model(path, "CPU", options)
    queue = openvino.AsyncInferQueue(model)

    def run(batches: Iterable[Batch]) -> Iterator[Result]:
        done: deque[Result] = deque()
        queue.set_callback(lambda request, items: done.append((items, request.get_output_tensor().data.copy())))
        for items, inputs in batches:
            queue.start_async(inputs, items)  # waits while all requests are busy
            while done:
                yield done.popleft()
        queue.wait_all()
        yield from done

    return run


def onnx_runtime(path: str) -> Runtime:
    """Runs an ONNX model with ONNX Runtime on all CPU cores."""
    onnxruntime = needed("onnxruntime", "onnx")
    with readable(path):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(batches: Iterable[Batch]) -> Iterator[Result]:
        for items, inputs in batches:
            yield items, session.run(None, inputs)[0]

    return run


def load_runtime(
    backend: str, dtype: str, directory: str, config: EncoderConfig, params: dict[str, Any], tokenizer: Tokenizer
) -> Runtime | None:
    """Opens, or first converts (`model_file`), the model of a directory for a backend (`chosen_backend`); None for JAX."""
    backend = chosen_backend(backend, dtype, directory)
    if backend == "jax":
        return None
    path = model_file(backend, dtype, directory, config, params, tokenizer)
    return onnx_runtime(path) if backend == "onnx" else openvino_runtime(path, dtype)
