"""How many floating-point operations a step takes, counted from shapes."""

from harp_jax.model.bert import BertConfig


def step_flops(shape: BertConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """FLOPs of one step (forward and backward, 2 per multiply-add): 3 × the forward pass's matrix products.

    `rows` of `length` slots, with `sequences` [CLS] tokens and `predictions` masked tokens a row; the last layer is
    computed for these alone. XLA's own count takes a scanned layer once and a custom call for nothing, hence this one.
    """
    h, tokens, asked = shape.hidden, rows * length, rows * (sequences + predictions)
    projections, mlp = 2 * h * h, 2 * h * shape.intermediate  # of two kernels each: keys and values, queries and output
    layer = 2 * tokens * (2 * projections + mlp) + 4 * tokens * length * h
    last = 2 * tokens * projections + 2 * asked * (projections + mlp) + 4 * asked * length * h
    heads = 2 * rows * (sequences * h * h + predictions * (h * h + h * shape.vocab_size))
    return 3.0 * ((shape.layers - 1) * layer + last + heads)
