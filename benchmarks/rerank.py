"""Pairs a second of re-ranking, compared with sentence-transformers' CrossEncoder on the same exported model and pairs.

    make bench-rerank

Both sides run at their best settings (batch sizes tried first), in float32 on the same device, text in and scores out, in
alternating rounds of one process; the figure is the ratio of the median rounds. Compilation happens before the rounds, since
a re-ranking of any size pays it once. Scores must agree to 1e-5 of the largest.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from harp_jax.allocator import keep_pages
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.cli import keep_compiled
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries, read_run
from harp_jax.model.cross_encoder import init_params
from harp_jax.ranking.reranker import Reranker
from harp_jax.text.tokenizer import load_tokenizer

Pairs = list[tuple[str, str]]


def exported(model: str, directory: str) -> str:
    """An export with a score head; an encoder without one gets a fresh head."""
    config, params = load_hf(model)
    fresh = jax.device_get(init_params(config, jax.random.key(0)))
    save_hf(os.path.join(directory, "model"), config, {**fresh, **params}, load_tokenizer(model), "")
    return os.path.join(directory, "model")


def real_pairs(arguments: argparse.Namespace) -> Pairs:
    """Queries spread over the run with their first candidates."""
    run, queries = read_run(arguments.run), read_queries(arguments.queries)
    docs = Documents.open(arguments.docs, ("title", "body"))
    step = max(1, len(run) // arguments.questions)
    chosen = list(run)[::step][: arguments.questions]
    return [(queries[qid], docs[docid]) for qid in chosen for docid in run[qid].ranked()[: arguments.candidates]]


def theirs(model: str, pairs: Pairs, batch_sizes: list[int]) -> tuple[str, Callable[[], np.ndarray]]:
    from sentence_transformers import CrossEncoder

    encoder = CrossEncoder(model, device="cpu" if jax.default_backend() == "cpu" else None)
    some = pairs[:: max(1, len(pairs) // 100)]
    times = {size: seconds(partial(encoder.predict, some, batch_size=size)) for size in batch_sizes}
    best = min(times, key=times.__getitem__)
    return f"CrossEncoder.predict, batch_size={best}", lambda: np.asarray(encoder.predict(pairs, batch_size=best))


def ours(model: str, pairs: Pairs, batch_tokens: list[int]) -> tuple[str, Callable[[], np.ndarray]]:
    times = {}
    for tokens in batch_tokens:
        reranker = Reranker.from_pretrained(model, batch_tokens=tokens)
        some = pairs[:: max(1, len(pairs) // 100)]
        reranker.predict(some)  # compiles
        times[tokens] = seconds(partial(reranker.predict, some))
    best = min(times, key=times.__getitem__)
    chosen = Reranker.from_pretrained(model, batch_tokens=best)
    chosen.predict(pairs)
    return f"Reranker, batch_tokens={best}", lambda: chosen.predict(pairs)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="Hugging Face BERT directory")
    parser.add_argument("--docs", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--run", required=True, help="candidates, such as BM25's")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=50, help="of each question")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    keep_pages()  # for both sides
    keep_compiled()
    pairs = real_pairs(arguments)
    accelerated = jax.default_backend() != "cpu"
    with tempfile.TemporaryDirectory() as directory:
        model = exported(arguments.model, directory)
        sides = [
            theirs(model, pairs, [64, 128, 256, 512] if accelerated else [4, 8, 16, 32]),
            ours(model, pairs, [65536, 131072] if accelerated else [1024, 2048, 4096]),
        ]
        times: list[list[float]] = [[], []]
        scores = [np.zeros(0), np.zeros(0)]
        for _ in range(arguments.rounds):
            for number, (_, work) in enumerate(sides):
                start = time.perf_counter()
                scores[number] = work()
                times[number].append(time.perf_counter() - start)
    rates = [len(pairs) / statistics.median(found) for found in times]
    for (name, _), rate, found in zip(sides, rates, times):
        print(f"{name}: {rate:.1f} pairs/s (rounds: {', '.join(f'{len(pairs) / t:.1f}' for t in found)})")
    apart = float(np.abs(scores[0] - scores[1]).max() / np.abs(scores[0]).max())
    print(
        f"{len(pairs)} pairs on {jax.default_backend()}: ratio {rates[1] / rates[0]:.2f}, scores apart by {apart:.1e}"
    )


if __name__ == "__main__":
    main()
