"""Pairs per second of re-ranking with every backend, compared with sentence-transformers' CrossEncoder on the same model and pairs.

    make bench-rerank

All sides run at their best settings (batch sizes tried first), on the same device, text in and scores out, alternating in one
run; the figures are ratios of the median rounds. Compilation happens before the rounds: a re-ranking of any size pays it once.
Theirs are torch float32 and bfloat16 and, on a CPU, if the environment of --peer_python has optimum and optimum supports the
architecture, OpenVINO int8 calibrated on the same pairs as ours. Scores in float32 must agree to 1e-4 of the largest; the
differences in bfloat16 and int8 are printed. With --windows ours also scores the best of that many windows of 512 tokens.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.api import Reranker
from harp_jax.base.allocator import keep_pages
from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import truncated
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.onnx_openvino import write_onnx, write_openvino
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries, read_run
from harp_jax.model.cross_encoder import init_params
from harp_jax.ranking.scorers import Windows
from harp_jax.text.tokenizer import NO_MARKS, load_tokenizer

Pairs = list[tuple[str, str]]
OURS = (
    ("jax", "float32"),
    ("jax", "bfloat16"),
    ("onnx", "float32"),
    ("onnx", "int8"),
    ("openvino", "float32"),
    ("openvino", "bfloat16"),
    ("openvino", "int8"),
)
SAMPLE = 60  # pairs on which batch sizes are tried
HEADS = ("encoder", "pooler", "score")


@dataclass
class Side:
    """One way to score: `run(size, every)` returns (seconds, scores) of every `every`th pair in batches of `size`."""

    name: str
    sizes: list[int]
    run: Callable[[int, int], tuple[float, np.ndarray]]
    size: int = 0
    times: list[float] = field(default_factory=list)
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))


def exported(model: str, directory: str, pairs: Pairs, length: int) -> str:
    """A ranker's export with every format whose packages are installed; an encoder without a head gets a fresh one."""
    config, params = load_hf(model)
    fresh = jax.device_get(init_params(config, jax.random.key(0)))
    params = {name: tree for name, tree in {**fresh, **params}.items() if name in HEADS}
    tokenizer = replace(load_tokenizer(model), max_length=length)

    def add(place: str) -> None:
        ids = truncated(pairs[:: max(1, len(pairs) // 300)], tokenizer, NO_MARKS)
        for write in (
            lambda: write_onnx(place, config, params, int8=True),
            lambda: write_openvino(place, config, params, tokenizer, ids),
        ):
            try:
                write()
            except InputError as error:
                print(f"note: {error}", file=sys.stderr)

    path = os.path.join(directory, "model")
    save_hf(path, config, params, tokenizer, "", more=add if jax.default_backend() == "cpu" else None)
    return path


def real_pairs(arguments: argparse.Namespace) -> Pairs:
    """Queries spread over the run with their first candidates."""
    run, queries = read_run(arguments.run), read_queries(arguments.queries)
    docs = Documents.open(arguments.docs, ("title", "body"))
    step = max(1, len(run) // arguments.questions)
    chosen = list(run)[::step][: arguments.questions]
    return [(queries[qid], docs[docid]) for qid in chosen for docid in run[qid].ranked()[: arguments.candidates]]


def ours(model: str, pairs: Pairs, sizes: list[int], clock: Callable[[], float], windows: int) -> list[Side]:
    """One side for each installed backend and precision, and one for windows of 512 tokens if `windows` is not 0."""
    sides = [(f"Reranker, {backend} {dtype}", backend, dtype, None, None) for backend, dtype in OURS]
    if windows:
        sides.append((f"Reranker, jax, {windows} windows", "jax", "float32", 512, Windows(windows)))
    found = []
    for name, backend, dtype, length, parts in sides:
        rankers: dict[int, Reranker] = {}
        load = partial(Reranker.from_pretrained, model, dtype, length, backend=backend)
        try:
            rankers[sizes[0]] = load(batch_tokens=sizes[0])
        except InputError as error:
            print(f"note: {error}", file=sys.stderr)
            continue

        def run(size: int, every: int, rankers=rankers, load=load, parts=parts) -> tuple[float, np.ndarray]:
            if size not in rankers:
                rankers.clear()  # with 4,096 tokens each runtime keeps a GB or more
                rankers[size] = load(batch_tokens=size)
            start = clock()
            scores = rankers[size].predict(pairs[::every], parts)
            return clock() - start, scores

        found.append(Side(name, sizes, run))
    return found


class Peer:
    """The process of `rerank_peer.py`."""

    def __init__(self, python: str, model: str, pairs: str, length: int, device: str, clock: str) -> None:
        program = os.path.join(os.path.dirname(__file__), "rerank_peer.py")
        given = [
            f"--model={model}",
            f"--pairs={pairs}",
            f"--max_length={length}",
            f"--device={device}",
            f"--clock={clock}",
        ]
        self.process = subprocess.Popen(
            [python, program, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("sentence-transformers ended; its messages are above")
        return json.loads(line)

    def sides(self, sizes: list[int]) -> list[Side]:
        """A side for each of its models."""
        return [Side(name, sizes, lambda size, every, name=name: self.run(name, size, every)) for name in self.names]

    def run(self, name: str, size: int, every: int) -> tuple[float, np.ndarray]:
        assert self.process.stdin is not None
        print(json.dumps({"side": name, "batch_size": size, "every": every}), file=self.process.stdin, flush=True)
        answer = self._answer()
        return answer["seconds"], np.array(answer["scores"], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="Hugging Face BERT directory")
    parser.add_argument("--docs", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--run", required=True, help="candidates, such as BM25's")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=30, help="candidates per question")
    parser.add_argument(
        "--windows", type=int, default=0, help="also score long documents by so many windows of 512 tokens"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max_length", type=int, default=512)
    parser.add_argument("--peer_python", default=sys.executable, help="Python with sentence-transformers and optimum")
    parser.add_argument(
        "--clock",
        default="perf_counter",
        choices=("perf_counter", "process_time"),
        help="process_time: CPU time, for a busy machine; pin the run to one core (taskset)",
    )
    arguments = parser.parse_args()
    keep_pages()
    keep_compiled()
    pairs = real_pairs(arguments)
    accelerated = jax.default_backend() != "cpu"
    with tempfile.TemporaryDirectory() as directory:
        model = exported(arguments.model, directory, pairs, arguments.max_length)
        with open(os.path.join(directory, "pairs.json"), "w") as file:
            json.dump(pairs, file)
        device = "cuda" if accelerated else "cpu"
        peer = Peer(arguments.peer_python, model, file.name, arguments.max_length, device, arguments.clock)
        theirs = peer.sides([64, 128, 256, 512] if accelerated else [1, 4, 8, 16, 32])
        sides = [
            *theirs,
            *ours(
                model,
                pairs,
                [65536] if accelerated else [512, 1024, 2048, 4096],  # each size is compiled for each length
                getattr(time, arguments.clock),
                arguments.windows,
            ),
        ]
        measure(sides, len(pairs), arguments.rounds)
        peer.process.kill()
    report(sides, len(theirs), len(pairs))


def measure(sides: list[Side], pairs: int, rounds: int) -> None:
    """Finds the best size of each side, then runs the rounds, alternating between sides."""
    every = max(1, pairs // SAMPLE)
    for side in sides:
        tried = {}
        for size in side.sizes:
            side.run(size, every)  # compiles
            tried[size] = side.run(size, every)[0]
        side.size = min(tried, key=tried.__getitem__)
        side.run(side.size, 1)
    for _ in range(rounds):
        for side in sides:
            seconds, side.scores = side.run(side.size, 1)
            side.times.append(seconds)


def report(sides: list[Side], theirs: int, pairs: int) -> None:
    reference = sides[0].scores
    rates = [pairs / statistics.median(side.times) for side in sides]
    for side, rate in zip(sides, rates):
        apart = float(np.abs(side.scores - reference).max() / np.abs(reference).max())
        moved = float(np.sqrt(np.mean((side.scores - reference) ** 2)) / reference.std())
        spread = ", ".join(f"{pairs / seconds:.2f}" for seconds in sorted(side.times))
        print(
            f"{side.name:<28} {rate:7.2f} pairs/s  (batch {side.size}; rounds {spread})  "
            f"scores apart by {apart:.1e} at most, {moved:.1e} of their deviation"
        )
        if side.name.endswith("float32") and apart > 1e-4:
            raise SystemExit(f"{side.name}: scores differ from torch's")
    best = max(range(theirs, len(sides)), key=rates.__getitem__)
    peer = max(range(theirs), key=rates.__getitem__)
    print(
        f"{pairs} pairs on {jax.default_backend()}: {sides[best].name} is {rates[best] / rates[peer]:.2f} times "
        f"{sides[peer].name} and {rates[best] / rates[0]:.2f} times {sides[0].name}"
    )


if __name__ == "__main__":
    main()
