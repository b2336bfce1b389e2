"""Pre-train three layers of MiniLM on the invented wiki of `make demo`, with link tasks alone or with MLM alone.

harp train --config=configs/demo.py --workdir=runs/demo --config.init=start --config.data="('pairs',)"

Hardware: 2 CPU cores, about one step per second. Used by harp_jax/experiments/demo.py, which prints the figures.
"""

from harp_jax.config import pretrain


def get_config():
    c = pretrain("recommended")  # no MLM, no dropout
    c.tasks = ("adp", "qdm")
    c.mlm_head_steps = 50  # for the control "MLM alone": the encoder has no MLM head
    c.row_length = 128  # three sequences of about 40 tokens
    c.lanes = 2  # in so small a batch, two lanes fill the slots better than eight
    c.batch_pairs = 32
    c.window = 512
    c.steps = 120
    c.learning_rate = 3e-4
    c.log_every = 10
    c.eval_every = 60
    c.eval_batches = 4
    c.dtype = "auto"  # bfloat16 on CPUs with AMX or AMD's AVX512-BF16, where it halves the time
    return c
