"""BERT-tiny on the invented wiki of `make demo`: pre-training from scratch with MLM, then HARP or MLM alone from there.

python -m harp_jax.main --config=configs/demo.py --workdir=runs/demo --config.data="('pairs',)" --config.tokenizer=vocabulary

Hardware: 2 CPU cores; four to seven steps a second. Only `make demo` uses it (configs/experiments/demo.py), where the stages
differ by flags alone: `tasks`, `init`, `pair_weight`.
"""

from harp_jax.defaults import pretrain


def get_config():
    c = pretrain()
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.model.max_positions = 512  # its attention weighs the terms of whole lead sections
    c.row_length = 256  # three pairs' sides of about 75 tokens; rows of 128 would hold one, and be a third empty
    c.lanes = 2  # two lanes fill better than eight in so small a batch
    c.batch_pairs = 32
    c.window = 512
    c.steps = 300
    c.learning_rate = 1e-3  # tiny models take, and need, ten times BERT-base's rate
    c.log_every = 20
    c.checkpoint_every = 150
    c.eval_every = 100
    c.eval_batches = 8
    return c
