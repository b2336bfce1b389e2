"""Floating-point operations of a training step, counted from shapes."""

from harp_jax.model.bert import BertConfig


def step_flops(shape: BertConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """FLOPs of one step (forward and backward, 2 per multiply-add): 3 × the forward pass's matrix products.

    `rows` of `length` slots, with `sequences` [CLS] tokens and `predictions` masked tokens per row; the last layer is
    computed for these tokens only. XLA's own count includes the body of a loop once and ignores custom calls, hence this one.
    """
    h, tokens, positions = shape.hidden, rows * length, rows * (sequences + predictions)
    projections, mlp = 2 * h * h, 2 * h * shape.intermediate  # two kernels each: keys and values, queries and output
    layer = 2 * tokens * (2 * projections + mlp) + 4 * tokens * length * h
    last = 2 * tokens * projections + 2 * positions * (projections + mlp) + 4 * positions * length * h
    heads = 2 * rows * (sequences * h * h + predictions * (h * h + h * shape.vocab_size))
    return 3.0 * ((shape.layers - 1) * layer + last + heads)
