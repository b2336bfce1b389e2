"""Sentences a second of the term weights, beside the straightforward way of making them, in one run on this machine.

python benchmarks/term_weights.py --documents=linked_pages.jsonl.xz --encoder=DIR [--sentences=256 --rounds=5]

The sentences that hold links are drawn from linked JSONL; every link of a sentence is an anchor. The straightforward way is
PyTorch's BERT of the same weights: one encode for each (sentence, anchor), all layers' attentions asked for, batches in the
order of the text padded to their longest. Both start from token ids and end at one weight a word, of [CLS] and of every
anchor. They take turns on the same sentences, a new set each round; compilation and first calls come before the clock.
Prints both rates and their ratio, by round medians, and the largest difference of a weight.
"""

import argparse
import itertools
import json
import statistics
import time
from typing import Any

import numpy as np

from data_pipeline.link_graph import in_sentences
from data_pipeline.term_weights import Encoder, Sequence
from data_pipeline.terms import load_terms
from data_pipeline.tokenised import WINDOW
from data_pipeline.weights import piece_spans, word_sums
from harp_jax.files import lines
from harp_jax.keys import generator
from harp_jax.tokenizer import load_tokenizer

Weighed = dict[int, np.ndarray]  # sentence → [1 + anchors, words]


def load_sentences(path: str, tokenizer: str, count: int) -> list[tuple[Sequence, np.ndarray]]:
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
        (groups[i] for i in drawn), terms.split([groups[i][0] for i in drawn], WINDOW)
    ):
        words = [(int(np.searchsorted(ends, a, "right")), int(np.searchsorted(starts, b, "left"))) for a, b in anchors]
        kept = [{"start": a, "end": b} for a, b in words if a < b]
        sentences.append((Sequence(span.tokens, piece_spans(span.lengths, kept)), span.lengths))
    return sentences


def straightforward(network: Any, sentences: list, tokenizer: Any, batch: int) -> Weighed:
    """One encode for each anchor."""
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
        last = out.attentions[-1].mean(1).numpy()
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
    parser.add_argument("--sentences", type=int, default=256, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="encodes in a batch of the straightforward way")
    parser.add_argument("--slots", type=int, default=2048, help="config.encoder_batch_tokens")
    parser.add_argument(
        "--threads", type=int, default=0, help="of PyTorch; 0: the faster of all cores and half of them"
    )
    args = parser.parse_args()

    import torch
    import transformers

    tokenizer = load_tokenizer(args.encoder)
    everything = load_sentences(args.documents, args.encoder, args.sentences * (args.rounds + 1))
    rounds = [everything[at :: args.rounds + 1] for at in range(args.rounds + 1)]
    network = transformers.AutoModel.from_pretrained(args.encoder, attn_implementation="eager").eval()
    encoder = Encoder(args.encoder, tokenizer, "float32", args.slots)
    # Compiles what the job compiles once for millions of sentences: every shape that occurs.
    ours(encoder, everything)
    choices = (
        [args.threads] if args.threads else sorted({torch.get_num_threads(), max(1, torch.get_num_threads() // 2)})
    )
    trials = {}
    for threads in choices:
        torch.set_num_threads(threads)
        straightforward(network, rounds[0][:16], tokenizer, args.batch)
        trials[threads] = seconds(straightforward, network, rounds[0][:64], tokenizer, args.batch)[0]
    torch.set_num_threads(min(trials, key=trials.__getitem__))

    rates: dict[str, list[float]] = {"straightforward": [], "ours": []}
    difference = 0.0
    for number, sentences in enumerate(rounds[1:]):
        slow_seconds, slow = seconds(straightforward, network, sentences, tokenizer, args.batch)
        fast_seconds, fast = seconds(ours, encoder, sentences)
        rates["straightforward"].append(len(slow) / slow_seconds)
        rates["ours"].append(len(fast) / fast_seconds)
        difference = max([difference, *(np.abs(slow[i] - fast[i]).max() for i in slow)])
        print(f"round {number}: {rates['straightforward'][-1]:.1f} and {rates['ours'][-1]:.1f} sentences/s", flush=True)
    anchors = sum(len(sequence.spans) for sequence, _ in everything) / len(everything)
    tokens = sum(len(sequence.tokens) for sequence, _ in everything) / len(everything)
    slow, fast = (statistics.median(rates[name]) for name in ("straightforward", "ours"))
    print(
        f"term weights: {fast:.1f} sentences/s; straightforward {slow:.1f} ({torch.get_num_threads()} threads, "
        f"batches of {args.batch}); ratio {fast / slow:.1f} "
        f"(by round {min(f / s for s, f in zip(*rates.values())):.1f} to {max(f / s for s, f in zip(*rates.values())):.1f}); "
        f"{anchors:.2f} anchors and {tokens:.1f} tokens a sentence; largest difference {difference:.1e}"
    )


def seconds(run: Any, *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
