"""Every architecture as a transformers model with random weights of odd shapes, and the comparison of ours with it."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.table import DISTILBERT_NAMES
from harp_jax.text.tokenizer import load_tokenizer

# Heads of size 12, a vocabulary of prime size, layers of both kinds of attention.
SHAPE = {
    "vocab_size": 103, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 50,
    "max_position_embeddings": 1030,
}  # fmt: skip
POSITIONED = {"hidden_act": "gelu", "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-5}
DISTILLED = {DISTILBERT_NAMES.get(name, name): value for name, value in (SHAPE | POSITIONED).items()}
MODERN = {**SHAPE, "num_hidden_layers": 3, "local_attention": 14, "pad_token_id": 1, "global_attn_every_n_layers": 2}

# Name → fields of config.json; modernbert-mean is of type modernbert.
ARCHITECTURES = {
    "bert": {**SHAPE, **POSITIONED, "type_vocab_size": 2},
    "distilbert": DISTILLED,
    "electra": {**SHAPE, **POSITIONED, "type_vocab_size": 2},
    "roberta": {**SHAPE, **POSITIONED, "type_vocab_size": 1, "pad_token_id": 1},
    "xlm-roberta": {**SHAPE, **POSITIONED, "type_vocab_size": 1, "pad_token_id": 1},
    "modernbert": MODERN,
    "modernbert-mean": {**MODERN, "classifier_pooling": "mean", "local_attention": 128},
}


def torch_model(name: str, kind: str, sizes: dict[str, Any] | None = None) -> Any:
    """AutoModelFor… `kind` ("SequenceClassification", "MaskedLM") with random biases and norms, which zeros and ones would hide."""
    import torch
    import transformers

    sizes = {DISTILBERT_NAMES.get(k, k) if name == "distilbert" else k: v for k, v in (sizes or {}).items()}
    fields = {**ARCHITECTURES[name], **sizes, "num_labels": 1}
    fields |= {"embedding_size": fields["hidden_size"]} if name == "electra" else {}
    config = transformers.AutoConfig.for_model(name.removesuffix("-mean"), **fields)
    model = getattr(transformers, f"AutoModelFor{kind}").from_config(config, attn_implementation="sdpa")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.copy_(value + 1 if "norm" in path.lower() and path.endswith("weight") else value)
    return model.eval()


def saved(kind: str, tokenizer: str, directory: Path, more: int = 0, **sizes: int) -> Path:
    """Saves a transformers cross-encoder and its tokenizer, with `more` word embeddings than tokens."""
    size = load_tokenizer(tokenizer).size + more
    torch_model(kind, "SequenceClassification", {"vocab_size": size, **sizes}).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{tokenizer}/{name}", directory)
    return directory


def rows_of(sequences: Sequence[np.ndarray], types: int) -> tuple[dict[str, np.ndarray], list[int]]:
    """One row per sequence, and a last row with all of them packed in reverse; their starts there, by sequence."""
    count, total = len(sequences), sum(map(len, sequences))
    batch = {
        name: np.zeros((count + 1, total + 3), np.int32)
        for name in ("tokens", "segment_ids", "position_ids", "token_type_ids")
    }
    batch["cls_offset"] = np.zeros((count + 1, count), np.int32)
    starts, at = [0] * count, 0
    for seat, number in enumerate(reversed(range(count))):
        sequence = sequences[number]
        for row, place in ((number, 0), (count, at)):
            line = slice(place, place + len(sequence))
            batch["tokens"][row, line] = sequence
            batch["segment_ids"][row, line] = seat + 1
            batch["position_ids"][row, line] = np.arange(len(sequence))
            batch["token_type_ids"][row, line] = second(sequence, types)
        batch["cls_offset"][count, number] = starts[number] = at
        at += len(sequence)
    return batch, starts


def second(sequence: np.ndarray, types: int) -> np.ndarray:
    """Token types of a pair whose document is the second half of the sequence."""
    return (np.arange(len(sequence)) >= len(sequence) // 2) * (types > 1)


def close(found: np.ndarray, expected: np.ndarray, relative: float, what: str, scale: float = 0.0) -> None:
    largest = max(np.abs(expected).max(), scale)
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * largest, err_msg=what)


def check_parity(folder: Path, model: Any, lengths: Sequence[int], dtypes: Sequence[str], stride: int = 1) -> None:
    """Hidden states, scores and gradients, alone and packed, to 1e-5 of the largest value in float32 and 1e-9 in float64.

    Against torch in float64, since its float32 is less exact than ours. Compares hidden states of every `stride`th token of a row.
    Leaves the gradients in the model.
    """
    import torch

    model.save_pretrained(folder / "model")
    shape, params = load_hf(str(folder / "model"))
    assert {"encoder", "pooler", "score"} == set(params)
    rng = np.random.default_rng(1)
    sequences = [rng.integers(2, shape.vocab_size, n) for n in lengths]
    directions = rng.normal(size=len(sequences)).astype(np.float32)
    batch, starts = rows_of(sequences, shape.type_vocab)
    numbers = np.arange(len(sequences), dtype=np.int32)
    seen = np.arange(0, batch["tokens"].shape[1], stride, dtype=np.int32)

    def ours(params: Any, batch: Any, dtype: str) -> Any:
        """The gradient of the scores of single and of packed sequences together; scores and hidden states."""

        def run(params: Any) -> Any:
            places = np.tile(seen, (len(batch["tokens"]), 1))
            network: Any = Ranker(shape.computing_in(dtype))
            scores, hidden = network.apply({"params": params}, batch, places, method="scored")
            return ((scores[numbers, 0] + scores[-1]) * directions).sum(), (scores, hidden)

        return jax.grad(run, has_aux=True)(params)

    outputs = []
    model = model.to(torch.float64)
    for sequence in sequences:
        types = torch.tensor(second(sequence, shape.type_vocab), dtype=torch.long)[None]
        more = {"token_type_ids": types} if shape.type_vocab > 1 else {}
        outputs.append(model(torch.tensor(sequence)[None], output_hidden_states=True, **more))
    expected = np.array([each.logits[0, 0].item() for each in outputs])
    sum(each.logits[0, 0] * float(d) for each, d in zip(outputs, directions)).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    model.to(torch.float32).save_pretrained(folder / "gradients")  # so that `load_hf` returns them as a parameter tree
    gradients = jax.tree.leaves(load_hf(str(folder / "gradients"))[1])
    for dtype in dtypes:
        relative = 1e-5 if dtype == "float32" else 1e-9
        with jax.enable_x64(dtype == "float64"):
            wide = jax.tree.map(lambda x, dtype=dtype: np.asarray(x, dtype), params)
            tree, (scores, hidden) = jax.jit(ours, static_argnums=2)(wide, batch, dtype)
        close(scores[numbers, 0], expected, relative, "scores")
        close(scores[-1], expected, relative, "scores of packed sequences")
        for i, (sequence, output) in enumerate(zip(sequences, outputs)):
            last, n = output.hidden_states[-1][0].detach().numpy(), len(sequence)
            for row, start, how in ((i, 0, "alone"), (-1, starts[i], "packed")):
                inside = (seen >= start) & (seen < start + n)
                close(hidden[row][inside], last[seen[inside] - start], relative, f"hidden states of {n}, {how}")
        for (path, mine), grad in zip(jax.tree_util.tree_leaves_with_path(tree), gradients):
            where = jax.tree_util.keystr(path)
            # A key's bias shifts all logits of a query equally: its gradient is 0 except for rounding.
            scale = 1.0 if "['key']['bias']" in where else 0.0
            close(mine, 2 * grad, max(relative, 1e-6), f"gradient of {where}", scale)
