"""A re-ranker without any encoder to start from: two layers of 128, the recommended task, minutes of one CPU core.

harp train --config=configs/from_scratch.py --workdir=runs/ranker --config.data="('pairs',)" --config.tokenizer=vocabulary

Its pairs are those of the generation preset "recommended", with `harp vocabulary`'s words or any BERT's (docs/reproduce.md).

Hardware: one CPU core with AVX512-BF16, nine updates/s, under two minutes. Figures: docs/lab/links.md.
"""

from harp_jax.config import pretrain


def get_config():
    c = pretrain("recommended")
    c.dtype = "auto"
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.model.initialisation = "matching"  # with "normal" held-out pairs stay at chance (.49), with this .93 are right
    c.row_length = 80  # a sequence of windows and the first 60 tokens of a page
    c.lanes = 2
    c.batch_tokens = 4_400  # about 28 pairs
    c.window = 512
    c.steps = 960  # one epoch of 27,000 pairs; after four the training loss is 0 and held-out pairs are no better
    c.learning_rate = 1e-3
    c.log_every = 20
    c.checkpoint_every = 480
    c.eval_every = 240
    return c
