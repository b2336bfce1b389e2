"""A ranker's file in ONNX or OpenVINO as a function from its inputs to scores."""

from collections.abc import Callable, Mapping

import numpy as np


def session(path: str) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """`checkpoints.formats.feed` of some pairs → their scores [pairs]."""
    if path.endswith(".onnx"):
        import onnxruntime

        opened = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda inputs: opened.run(["logits"], inputs)[0][:, 0]
    import openvino

    # The default precision is that of the machine, bfloat16 on some.
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: model(inputs)["logits"][:, 0]
