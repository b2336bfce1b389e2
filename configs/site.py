"""Pre-train the re-ranker of `harp site --train=ranker`. This file alone defines its training recipe.

harp site build/html --output=x --train=ranker --start=MiniLM-L6-v2/ --minutes=30
harp train --config=configs/site.py --workdir=runs/site --config.init=MiniLM-L6-v2/ --config.data="('pairs',)" --config.steps=600

`harp site` sets steps from the measured rate, and uses configs/site.py:taught if a sentence encoder's vectors teach. The model
fields are for an encoder from scratch; `init` brings its own.
"""

from harp_jax.config import pretrain


def get_config(preset: str = ""):
    c = pretrain(preset or "recommended")  # ADP, no MLM, no dropout; `harp site` leaves out a task with too few pairs
    c.dtype = "auto"  # bfloat16 on CPUs with AMX or AMD's AVX512-BF16, where it halves the time
    c.task_sampling = "proportional"  # for added tasks: many sites have few pairs of QDM
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.model.initialisation = "matching"  # otherwise small models from scratch do not learn to match words
    c.row_length = 128  # a query of at most 32 tokens and a document of at most 96
    c.lanes = 2  # in so small a batch, two lanes fill the slots better than eight
    c.batch_pairs = 32
    c.window = 512
    c.steps = 600
    c.learning_rate = 3e-4
    c.log_every = 10
    c.checkpoint_every = 50  # a kill loses a minute
    c.eval_every = 100
    c.eval_batches = 8
    return c
