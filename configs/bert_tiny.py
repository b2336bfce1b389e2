"""BERT-tiny for trials on two CPU cores: pre-training from scratch with MLM, then continued with HARP or MLM only.

harp train --config=configs/bert_tiny.py --workdir=runs/tiny --config.data="('pairs',)" --config.tokenizer=vocabulary

Hardware: 2 CPU cores, four to seven steps/s: about a minute for 300 steps. It checks that a pipeline runs; for a small
encoder that ranks, see configs/from_scratch.py. Used by the tests on real data.
"""

from harp_jax.config import pretrain


def get_config():
    c = pretrain()
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.model.max_positions = 512  # its attention provides term weights of whole lead sections
    c.row_length = 256  # three sequences of about 75 tokens; rows of 128 would hold one and be a third empty
    c.lanes = 2  # in so small a batch, two lanes fill the slots better than eight
    c.batch_pairs = 32
    c.window = 512
    c.steps = 300
    c.learning_rate = 1e-3  # tiny models tolerate, and need, ten times BERT-base's rate
    c.log_every = 20
    c.checkpoint_every = 150
    c.eval_every = 100
    c.eval_batches = 8
    return c
