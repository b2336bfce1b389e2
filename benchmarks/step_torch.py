"""Real tokens/s of the same pre-training step in PyTorch, on the pairs of benchmarks/step.py, to compare with ours.

python benchmarks/step_torch.py --mode=tuned --documents=collection.jsonl.xz --tokenizer=vocab.txt [--layers=2 …]

"official": as HARP's authors do, batches padded to their longest sequence, MLM's logits for every position. "tuned": sequences
sorted by length, so that hardly anything is padded, and logits for the masked positions only. Both use the architecture's
…ForMaskedLM of Transformers with its fused attention, and AdamW; bfloat16 is torch.autocast. Prints "2x128: N real tokens/s".
"""

import argparse
import time

import numpy as np
import torch
from step import CollectionReader, load_documents, random_documents
from transformers import AutoConfig, AutoModelForMaskedLM

from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import load_tokenizer

MLM_RATE = 0.15
# The MLM head of each …ForMaskedLM, the widening of its layers, the dropout fields, and that of attention, which ours lacks.
HEADS = {
    "bert": (lambda model: model.cls, 4, ("hidden_dropout_prob",), "attention_probs_dropout_prob"),
    "xlm-roberta": (lambda model: model.lm_head, 4, ("hidden_dropout_prob",), "attention_probs_dropout_prob"),
    "modernbert": (
        lambda model: torch.nn.Sequential(model.head, model.decoder),
        1.5,
        ("embedding_dropout", "mlp_dropout"),
        "attention_dropout",
    ),
}


def batches(sequences: list[np.ndarray], pairs: int, mode: str) -> list[list[np.ndarray]]:
    """Sequences in pairs of neighbours; if sorted, a pair's two sides are about equally long."""
    if mode == "tuned":
        sequences = sorted(sequences, key=len)
    size = 2 * pairs
    found = [sequences[start : start + size] for start in range(0, len(sequences) - size + 1, size)]
    return [found[index] for index in generator("bench", mode).permutation(len(found))]


def tensors(batch: list[np.ndarray], mask_token: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
    """Tokens [sequences, longest] with masked ones replaced, the attention mask, and labels, -100 where nothing is predicted."""
    shape = len(batch), max(map(len, batch))
    tokens, mask, labels = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, -100, np.int64)
    for row, sequence in enumerate(batch):
        length = len(sequence)
        tokens[row, :length], mask[row, :length] = sequence, 1
        hidden = rng.permutation(length)[: max(1, int(MLM_RATE * length))]
        labels[row, hidden], tokens[row, hidden] = sequence[hidden], mask_token
    return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(labels)


class Ranker(torch.nn.Module):
    """The encoder with the heads of a score and of MLM."""

    def __init__(self, model_type: str, vocabulary: int, layers: int, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        head, widening, fields, attention = HEADS[model_type]
        more = {**dict.fromkeys(fields, dropout), attention: 0.0}
        shape = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        wide, ids = int(widening * hidden), {f"{name}_token_id": 0 for name in ("pad", "cls", "sep", "bos", "eos")}
        config = AutoConfig.for_model(model_type, vocab_size=vocabulary, intermediate_size=wide, **shape, **ids, **more)
        whole = AutoModelForMaskedLM.from_config(config, attn_implementation="sdpa")
        self.encoder, self.mlm = whole.base_model, head(whole)
        self.score = torch.nn.Sequential(
            torch.nn.Linear(hidden, hidden), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(hidden, 1)
        )


def loss_of(model: Ranker, arrays: tuple[torch.Tensor, ...], mode: str) -> torch.Tensor:
    """The hinge loss of the pairs plus the cross-entropy of the masked tokens."""
    tokens, mask, labels = arrays
    hidden = model.encoder(tokens, attention_mask=mask).last_hidden_state
    scores = model.score(hidden[:, 0]).reshape(-1, 2)
    if mode == "tuned":
        chosen = labels >= 0
        hidden, labels = hidden[chosen], labels[chosen]
    logits = model.mlm(hidden)
    mlm = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    return mlm + torch.relu(1 - scores[:, 0] + scores[:, 1]).mean()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True, choices=("official", "tuned"))
    parser.add_argument("--documents", default="", help="empty: random ones")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--model_type", default="bert", choices=HEADS)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--row_length", type=int, default=512, help="our row length: the longest sequence")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--compile", action="store_true", help="compile the encoder, which takes minutes")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument(
        "--clock", default="perf_counter", choices=("perf_counter", "process_time"), help="see rerank.py"
    )
    args = parser.parse_args()

    torch.manual_seed(0)
    vocabulary = load_tokenizer(args.tokenizer)
    documents = load_documents(args.documents, vocabulary, 2000) if args.documents else random_documents(2000, 505)
    reader = CollectionReader(documents, args.row_length, vocabulary.template)
    groups = reader.read(0, "qdm", 0, 1000)
    sequences = [
        np.concatenate([[vocabulary.cls], one.query, [vocabulary.sep], one.document, [vocabulary.sep]])
        for group in groups
        for one in group.sequences
    ]
    order = batches(sequences, args.pairs, args.mode)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = (
        Ranker(args.model_type, vocabulary.size, args.layers, args.hidden, args.heads, args.dropout).train().to(device)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    if args.compile:  # lengths vary, so with symbolic shapes
        model.encoder.compile(dynamic=True)
    rng = generator("bench", "masks")
    rates, seconds, real, slots = [], 0.0, 0, 0
    clock = getattr(time, args.clock)
    warm = len(order) if device == "cuda" else 3  # all lengths, since each may compile something or take memory
    for number in range(args.steps + warm):
        arrays = tuple(a.to(device) for a in tensors(order[number % len(order)], vocabulary.mask, rng))
        start = clock()
        with torch.autocast(device, torch.bfloat16, enabled=args.dtype == "bfloat16"):
            loss = loss_of(model, arrays, args.mode)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        if number >= warm:
            tokens = int(arrays[1].sum())
            taken = clock() - start
            rates.append(tokens / taken)
            seconds, real, slots = seconds + taken, real + tokens, slots + arrays[1].numel()
    # Over all steps: sorted batches differ in length, those of long documents take most of the time, and a median hides them.
    print(
        f"{args.layers}x{args.hidden}: {real / seconds:.0f} real tokens/s (min {min(rates):.0f}, max {max(rates):.0f}, "
        f"{args.steps} steps), {real / slots:.3f} of the slots are real tokens"
    )


if __name__ == "__main__":
    main()
