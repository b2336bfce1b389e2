"""Sentences per second of the term weights, compared with a straightforward implementation on the same machine.

python benchmarks/term_weights.py --documents=linked_pages.jsonl.xz --encoder=DIR [--sentences=2048 --rounds=4]

Sentences with links are drawn from linked JSONL; every link of a sentence is an anchor. The straightforward implementation uses
PyTorch's BERT with the same weights: one forward pass per (sentence, anchor) that returns the attentions of all layers, batches
in text order, padded to their longest sequence. Both start from token ids and end with one weight per word, for [CLS] and for
every anchor. They alternate on the same sentences, a new set each round; compilation and first calls are not timed. Prints the
rates, the ratios to the straightforward implementation (medians over rounds) and the largest difference of a weight, for both
values of config.encoder_dtype (bfloat16 is that of configs/data/enwiki.py).
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from data_pipeline.links.link_graph import in_sentences
from data_pipeline.text.terms import load_terms
from data_pipeline.weights.term_weights import Encoder, TokenSpans, attending, word_sums
from data_pipeline.weights.tokenised import LONGEST
from harp_jax.base.allocator import keep_pages
from harp_jax.base.files import lines
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import load_tokenizer

Weighed = dict[int, np.ndarray]  # sentence → [1 + anchors, words]


def load_sentences(path: str, tokenizer: str, count: int) -> list[tuple[TokenSpans, np.ndarray]]:
    """(sequence, lengths of its words) of `count` sentences drawn from all pages, in the order of the text."""
    groups: list[tuple[str, list[tuple[int, int]]]] = []
    for _, line in lines(path):
        document = json.loads(line)
        links = sorted(document["links"], key=lambda link: link["start"])
        found = [(link, span) for link, span in in_sentences(document["text"], links) if span]
        for span, group in itertools.groupby(found, key=lambda pair: pair[1]):
            text = document["text"][span[0] : span[1]]
            groups.append((text, [(link["start"] - span[0], link["end"] - span[0]) for link, _ in group]))
    drawn = sorted(generator("bench").permutation(len(groups))[:count].tolist())
    terms = load_terms(tokenizer, "")
    sentences = []
    for (_, anchors), (span, starts, ends) in zip(
        (groups[i] for i in drawn), terms.split([groups[i][0] for i in drawn], LONGEST - 2)
    ):
        words = [(int(np.searchsorted(ends, a, "right")), int(np.searchsorted(starts, b, "left"))) for a, b in anchors]
        kept = [{"start": a, "end": b} for a, b in words if a < b]
        sentences.append((TokenSpans(span.tokens, attending(span.tokens, span.lengths, kept, "span")), span.lengths))
    return sentences


def straightforward(network: Any, sentences: list, tokenizer: Any, batch: int) -> Weighed:
    """One forward pass per anchor."""
    import torch

    pairs = [(i, k) for i, (sequence, _) in enumerate(sentences) for k in range(len(sequence.spans))]
    found: Weighed = {}
    for at in range(0, len(pairs), batch):
        part = pairs[at : at + batch]
        width = max(len(sentences[i][0].tokens) for i, _ in part) + 2
        ids = np.full((len(part), width), tokenizer.pad)
        for row, (i, _) in enumerate(part):
            tokens = sentences[i][0].tokens
            ids[row, : len(tokens) + 2] = [tokenizer.cls, *tokens, tokenizer.sep]
        ids = torch.from_numpy(ids)
        with torch.inference_mode():
            out = network(input_ids=ids, attention_mask=(ids != tokenizer.pad).long(), output_attentions=True)
        last = out.attentions[-1].float().mean(1).numpy()
        for row, (i, k) in enumerate(part):
            sequence, lengths = sentences[i]
            start, end = sequence.spans[k]
            inner = last[row, :, 1 : len(sequence.tokens) + 1]
            cls, anchor = (word_sums(x, lengths) for x in (inner[0], inner[1 + start : 1 + end].mean(0)))
            found.setdefault(i, np.zeros((1 + len(sequence.spans), len(lengths))))[[0, 1 + k]] = cls, anchor
    return found


def ours(encoder: Encoder, sentences: list) -> Weighed:
    sequences = [sequence for sequence, _ in sentences]
    return {i: word_sums(rows, sentences[i][1]) for i, rows, _ in encoder.rows(sequences)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", required=True)
    parser.add_argument("--encoder", required=True, help="Hugging Face BERT directory")
    parser.add_argument("--sentences", type=int, default=2048, help="per round; a bucket of a job has thousands")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument(
        "--batch", type=int, default=32, help="sequences per batch of the straightforward implementation"
    )
    parser.add_argument("--torch_dtype", default="float32", help="dtype of the straightforward implementation")
    parser.add_argument("--slots", type=int, default=2048, help="token slots per batch")
    args = parser.parse_args()
    keep_pages()  # for both implementations

    import torch
    import transformers

    tokenizer = load_tokenizer(args.encoder)
    everything = load_sentences(args.documents, args.encoder, args.sentences * args.rounds)
    rounds = [everything[at :: args.rounds] for at in range(args.rounds)]
    loaded = transformers.AutoModel.from_pretrained(args.encoder, attn_implementation="eager")
    network = loaded.eval().to(getattr(torch, args.torch_dtype))
    ways: dict[str, Callable[[list], Weighed]] = {
        "straightforward": lambda sentences: straightforward(network, sentences, tokenizer, args.batch)
    }
    for dtype in ("float32", "bfloat16"):
        encoder = Encoder(args.encoder, tokenizer, dtype, args.slots)
        ways[dtype] = partial(ours, encoder)
        # The job compiles each shape once for millions of sentences.
        for sentences in rounds:
            ways[dtype](sentences)
    threads = fastest_threads(lambda: ways["straightforward"](rounds[0][:64]))

    rates: dict[str, list[float]] = {way: [] for way in ways}
    difference = dict.fromkeys(ways, 0.0)
    for number, sentences in enumerate(rounds):
        found = {}
        for way, run in ways.items():
            start = time.perf_counter()
            found[way] = run(sentences)
            rates[way].append(len(sentences) / (time.perf_counter() - start))
            apart = max(np.abs(found[way][i] - found["straightforward"][i]).max() for i in range(len(sentences)))
            difference[way] = max(difference[way], apart)
        print(f"round {number}: " + ", ".join(f"{way} {rates[way][-1]:.1f}" for way in ways), flush=True)
    anchors = sum(len(sequence.spans) for sequence, _ in everything) / len(everything)
    tokens = sum(len(sequence.tokens) for sequence, _ in everything) / len(everything)
    print(
        f"{anchors:.2f} anchors and {tokens:.1f} tokens per sentence; PyTorch with {threads} threads, {args.torch_dtype}"
    )
    slow = rates["straightforward"]
    for way in ways:
        ratios = [fast / base for fast, base in zip(rates[way], slow)]
        print(
            f"term weights, {way}: {statistics.median(rates[way]):.1f} sentences/s, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}), largest difference of a weight {difference[way]:.1e}"
        )


def fastest_threads(run: Callable[[], Any]) -> int:
    """Sets PyTorch's number of threads to the faster one of all cores and half of them."""
    import torch

    trials = {}
    for threads in {torch.get_num_threads(), max(1, torch.get_num_threads() // 2)}:
        torch.set_num_threads(threads)
        run()
        start = time.perf_counter()
        run()
        trials[threads] = time.perf_counter() - start
    torch.set_num_threads(min(trials, key=trials.__getitem__))
    return torch.get_num_threads()


if __name__ == "__main__":
    main()
