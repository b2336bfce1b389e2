"""sentence-transformers' CrossEncoder, for `benchmarks/rerank.py`: runs in the separate environment that its backends need.

Reads one request per line from stdin, {"side", "batch_size", "every"}, and answers with {"seconds", "scores"} on stdout. Its
first line is the list of its sides.
"""

import argparse
import json
import os
import sys
import time

from sentence_transformers import CrossEncoder

CALIBRATION = 300  # pairs


def quantized(model: str, pairs: list[tuple[str, str]], length: int) -> CrossEncoder:
    """The OpenVINO backend in int8: sentence-transformers' own conversion, quantised as its exporter does, on these pairs."""
    import nncf
    import openvino
    import optimum.intel  # noqa: F401  (without it CrossEncoder raises a bare Exception)

    # `export`: its own conversion, although the directory has ours.
    converted = CrossEncoder(model, backend="openvino", device="cpu", max_length=length, model_kwargs={"export": True})
    folder = os.path.join(model, "peer")
    converted.save_pretrained(folder)
    path = os.path.join(folder, "openvino", "openvino_model.xml")
    graph = openvino.Core().read_model(path)
    rows = [
        dict(converted.tokenizer(*pair, truncation=True, max_length=length, return_tensors="np"))
        for pair in pairs[:: max(1, len(pairs) // CALIBRATION)]
    ]
    small = nncf.quantize(graph, nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(rows))
    openvino.save_model(small, path.replace("openvino_model", "openvino_model_qint8_quantized"), compress_to_fp16=False)
    named = {"file_name": "openvino/openvino_model_qint8_quantized.xml"}
    return CrossEncoder(folder, backend="openvino", device="cpu", max_length=length, model_kwargs=named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", required=True, help="JSON: [[query, document], …]")
    parser.add_argument("--max_length", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clock", default="perf_counter")
    arguments = parser.parse_args()
    clock = getattr(time, arguments.clock)
    answers, sys.stdout = sys.stdout, sys.stderr  # stdout is for answers, not for the conversion's progress
    with open(arguments.pairs) as file:
        pairs = [(query, document) for query, document in json.load(file)]
    length = arguments.max_length
    sides = {"CrossEncoder, torch float32": CrossEncoder(arguments.model, device=arguments.device, max_length=length)}
    sides["CrossEncoder, torch bfloat16"] = CrossEncoder(
        arguments.model, device=arguments.device, max_length=length, model_kwargs={"dtype": "bfloat16"}
    )
    if arguments.device == "cpu":
        try:
            sides["CrossEncoder, openvino int8"] = quantized(arguments.model, pairs, length)
        except (ImportError, ValueError) as error:  # optimum lacks ModernBERT
            print(f"without its OpenVINO backend: {str(error)[:100]}", file=sys.stderr)
    print(json.dumps(list(sides)), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        some = pairs[:: request["every"]]
        start = clock()
        scores = sides[request["side"]].predict(some, batch_size=request["batch_size"], show_progress_bar=False)
        seconds = clock() - start
        print(json.dumps({"seconds": seconds, "scores": [float(s) for s in scores]}), file=answers, flush=True)


if __name__ == "__main__":
    main()
