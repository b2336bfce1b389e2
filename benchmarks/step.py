"""Real tokens/s of the pre-training step on this machine, with document lengths of a real collection.

python benchmarks/step.py --documents=collection.jsonl.xz --tokenizer=vocab.txt [--layers=2 --hidden=128 --heads=2]

The pairs resemble those of HARP's QDM, RDP and ACM: a 4-token query with a different document on each side. Prints "2x128: N real
tokens/s", the fraction of slots that are real tokens, the share of the peak rate of matrix products measured here, and the peak
memory of this process.
"""

import argparse
import dataclasses
import itertools
import json
import resource
import statistics
import time
from collections.abc import Mapping

import jax
import numpy as np

from harp_jax import config as configs
from harp_jax.base.allocator import keep_pages
from harp_jax.base.files import lines
from harp_jax.base.randomness import generator
from harp_jax.input.lanes import Batches
from harp_jax.input.packing import Group, make_layout, pair_sequences
from harp_jax.model import sharding
from harp_jax.text.tokenizer import Template, Tokenizer
from harp_jax.training.machine import batch_flops, peak_flops
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.step import initial, make_step
from harp_jax.training.train import abstract_state, make_optimizer, shard_params


class CollectionReader:
    """Pairs from real documents, a `packing.Reader`."""

    def __init__(self, documents: list[np.ndarray], length: int, template: Template) -> None:
        self.documents, self.length, self.template = documents, length, template
        self.sizes: Mapping[str, int] = {"qdm": len(documents)}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        groups = []
        for number in range(start, start + count):
            rng = generator("bench", lane, number)
            a, b = rng.integers(len(self.documents), size=2)
            query = rng.integers(1000, 2000, 4).astype(np.int32)
            groups.append(
                Group(
                    0,
                    pair_sequences(query, self.documents[a], query[:0], self.documents[b], self.length, self.template),
                )
            )
        return groups


def load_documents(path: str, tokenizer: Tokenizer, count: int) -> list[np.ndarray]:
    """Token ids of every tenth document of the first 10 × `count`, truncated to 505 tokens."""
    texts = [json.loads(line)["text"] for _, line in itertools.islice(lines(path), 10 * count)][::10]
    return [np.asarray(e.ids[:505], np.int32) for e in tokenizer.encode_batch(texts) if len(e.ids) > 5]


def random_documents(count: int, longest: int) -> list[np.ndarray]:
    """Token ids with lengths like those of Wikipedia's passages: 139 on average, exponential, truncated."""
    rng = generator("bench", "documents")
    lengths = np.clip(rng.exponential(139, count).astype(int), 6, longest)
    return [rng.integers(1000, 30000, length).astype(np.int32) for length in lengths]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--model_type", default="bert")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--row_length", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument(
        "--clock", default="perf_counter", choices=("perf_counter", "process_time"), help="see rerank.py"
    )
    parser.add_argument("--attention", default="auto")
    parser.add_argument("--pages", default="keep", choices=("keep", "return"), help="whether glibc keeps freed memory")
    args = parser.parse_args()

    if args.pages == "keep":
        keep_pages()
    c = configs.pretrain()
    c.tokenizer, c.tasks, c.row_length, c.batch_pairs = args.tokenizer, ("qdm",), args.row_length, args.pairs
    c.model.layers, c.model.hidden, c.model.heads, c.model.dropout = args.layers, args.hidden, args.heads, args.dropout
    c.model.model_type, c.model.max_positions = args.model_type, max(512, args.row_length)
    c.model.attention, c.dtype, c.lanes = args.attention, args.dtype, args.lanes
    stage = pretrain_stage(c, with_data=False)
    reader = CollectionReader(
        load_documents(args.documents, stage.tokenizer, 2000), args.row_length, stage.tokenizer.template
    )
    layout = make_layout(c, stage.tokenizer, reader, stage.source.shares, 2, 2 * c.batch_pairs)
    stage = dataclasses.replace(stage, source=dataclasses.replace(stage.source, reader=reader, layout=layout))
    mesh = sharding.make_mesh(c)
    optimizer = make_optimizer(c, 1000)
    shardings = jax.tree.map(lambda x: x.sharding, abstract_state(stage, optimizer, mesh)["params"])
    state = jax.jit(lambda p: initial(p, optimizer))(
        shard_params(stage.start(stage.encoder.padded, jax.random.key(0)), shardings)
    )
    step = jax.jit(make_step(stage.objective, optimizer, 0, c.prng, args.dropout > 0), donate_argnums=0)
    stream = iter(Batches(stage.source, range(c.lanes)))
    rates, times, tokens, slots = [], [], 0, 0
    clock = getattr(time, args.clock)
    for number in range(args.steps + 3):
        batch, _ = next(stream)
        arrays = sharding.put(batch, mesh)
        start = clock()
        state, metrics = step(state, arrays)
        jax.block_until_ready(metrics)
        if number >= 3:
            real = int((batch["segment_ids"] > 0).sum())
            times.append(clock() - start)
            rates.append(real / times[-1])
            tokens, slots = tokens + real, slots + batch["segment_ids"].size
    low, middle, high = min(rates), statistics.median(rates), max(rates)
    print(
        f"{args.layers}x{args.hidden}: {middle:.0f} real tokens/s (min {low:.0f}, max {high:.0f}, {args.steps} steps), "
        f"{tokens / slots:.3f} of {layout.rows * c.lanes} rows x {args.row_length} slots are real tokens"
    )
    # Before the peak rate is measured, which needs memory too.
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    computed = batch_flops(c, stage) / statistics.median(times)
    peak = peak_flops(jax.devices(), c.dtype)
    print(
        f"{computed / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s of {c.dtype} products ({computed / peak:.0%}); {memory:.2f} GiB at most"
    )


if __name__ == "__main__":
    main()
