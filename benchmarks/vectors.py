"""Speed of vectors, ours and sentence-transformers', in one process and in turns: texts to vectors, and a training step.

    make bench-vectors

Encoding: documents of a real collection, text in and vectors out, cosines of both at least .9999 in float32. Training: the same
queries, pages and negatives, one update of equal batch; theirs is CachedMultipleNegativesRankingLoss (GradCache), ours the fused
step without KL, which theirs lacks. Compilation happens before the rounds. The figures are medians, and ratios of them.
"""

import argparse
import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from harp_jax.base.allocator import keep_pages
from harp_jax.base.cli import keep_compiled
from harp_jax.base.files import lines
from harp_jax.base.randomness import generator
from harp_jax.config import read_config
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.lanes import Batches
from harp_jax.input.packing import Group, make_layout
from harp_jax.model import sharding
from harp_jax.ranking.vectors import Retriever
from harp_jax.training.stages.retriever import retriever_stage, with_identities
from harp_jax.training.step import initial, make_step
from harp_jax.training.train import abstract_state, make_optimizer, shard_params


class DocumentReader:
    """Groups of a document's beginning (the query), the rest (its page) and another document, a `packing.Reader`."""

    def __init__(self, documents: list[np.ndarray], texts: SeparateTexts) -> None:
        self.documents, self.texts, self.sizes = documents, texts, {"adp": len(documents)}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        groups = []
        for number in range(start, start + count):
            a, b = generator("bench", lane, number).integers(len(self.documents), size=2)
            query, page = np.split(self.documents[a], [len(self.documents[a]) // 2])
            groups.append(self.texts.group(0, "", query, [page, self.documents[b]], 1))
        return groups


def rounds(sides: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Median seconds of each side, in turns; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(count + 1):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}


def show(what: str, unit: str, amount: float, seconds: dict[str, float], peer: str) -> None:
    print(f"\n{what}")
    for name, each in seconds.items():
        print(f"  {name:<32} {amount / each:9.1f} {unit}   {seconds[peer] / each:.2f} x {peer}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", required=True, help="directory of a sentence-transformers encoder")
    parser.add_argument("--documents", required=True)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    keep_pages()
    keep_compiled()
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CachedMultipleNegativesRankingLoss

    texts = [json.loads(line)["text"] for _, line in itertools.islice(lines(a.documents), 40 * a.count)][::40]
    theirs = {
        dtype: SentenceTransformer(a.encoder, device="cpu").to(getattr(torch, dtype))
        for dtype in ("float32", "bfloat16")
    }
    ours = {
        f"{backend} {dtype}": Retriever.from_pretrained(a.encoder, dtype, backend=backend)
        for dtype in ("float32", "bfloat16")
        for backend in ("jax", "openvino")
    }
    known = theirs["float32"].encode(texts)
    cosines = {name: (known * model.encode(texts)).sum(1).min() for name, model in ours.items()}
    assert cosines["jax float32"] > 0.9999 and cosines["openvino float32"] > 0.9999, cosines
    tokens = sum(map(len, ours["jax float32"].scorer.encode_documents(texts)))
    sides: dict[str, Callable[[], object]] = {
        f"sentence-transformers {name}": lambda model=model: model.encode(texts, batch_size=32) for name, model in theirs.items()
    }  # fmt: skip
    sides |= {f"harp_jax {name}": lambda model=model: model.encode(texts) for name, model in ours.items()}
    peer = "sentence-transformers float32"
    show(f"encoding {len(texts)} documents (cosine in bfloat16 {cosines['jax bfloat16']:.5f})", "tokens/s", tokens,
         rounds(sides, a.rounds), peer)  # fmt: skip

    # The same groups for both: ours packs their ids, theirs tokenises their texts.
    def step_of(dtype: str) -> tuple[Callable[[], object], list[Group], int]:
        config = read_config("retriever")
        config.init, config.batch_pairs, config.kl_weight, config.dtype = a.encoder, a.pairs, 0.0, dtype
        stage = retriever_stage(config, with_data=False)
        room = SeparateTexts(config.row_length, stage.tokenizer.template)
        documents = [np.asarray(e.ids[:200], np.int32) for e in stage.tokenizer.encode_batch(texts) if len(e.ids) > 40]
        reader = DocumentReader(documents, room)
        layout = make_layout(config, stage.tokenizer, reader, {"adp": 1.0}, 3, 3 * a.pairs)
        source = dataclasses.replace(
            stage.source, reader=reader, layout=with_identities(layout, config), shares={"adp": 1.0}
        )
        mesh, optimizer, shape = sharding.make_mesh(config), make_optimizer(config, 1000), stage.encoder.padded
        shardings = jax.tree.map(lambda x: x.sharding, abstract_state(stage, optimizer, mesh)["params"])
        params = shard_params(stage.start(shape, jax.random.key(0)), shardings)
        state = jax.jit(lambda p: initial(p, optimizer))(params)
        step = jax.jit(make_step(stage.objective, optimizer, 0, config.prng, False), donate_argnums=0)
        batch, _ = next(iter(Batches(source, range(config.lanes))))
        pairs = int((batch["members"][:, :, 0] >= 0).sum())

        def run() -> None:
            nonlocal state
            state, metrics = step(state, sharding.put(batch, mesh))
            jax.block_until_ready(metrics)

        return run, reader.read(0, "adp", 0, a.pairs), pairs

    training: dict[str, Callable[[], object]] = {}
    for dtype in ("float32", "bfloat16"):
        run, groups, pairs = step_of(dtype)
        model = SentenceTransformer(a.encoder, device="cpu")
        loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=a.pairs)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
        columns = [[model.tokenizer.decode(group.sequences[n].query) for group in groups[:pairs]] for n in range(3)]

        def update(model=model, loss=loss, optimizer=optimizer, columns=columns, dtype=dtype) -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
                loss([model.tokenize(column) for column in columns], None).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

        training |= {f"sentence-transformers {dtype}": update, f"harp_jax {dtype}": run}
    show(f"a training step of {pairs} groups of three texts", "pairs/s", pairs, rounds(training, a.rounds), peer)


if __name__ == "__main__":
    main()
