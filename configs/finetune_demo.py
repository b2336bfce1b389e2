"""Fine-tune on the 66 training questions of the demo's wiki: localised cross-entropy, three negatives.

harp train --config=configs/finetune_demo.py --workdir=runs/ranker --config.init=runs/demo --config.docs=docs.tsv …

Hardware: 2 CPU cores. Time: a minute. Used by harp_jax/experiments/demo.py, which prints the figures.
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.model.layers = 3  # as in MiniLM, even with random weights
    c.model.hidden = 384
    c.model.heads = 12
    c.model.dropout = 0.0
    c.init_head = "pretrained"  # too few questions to learn a head from
    c.rank_loss = "lce"
    c.negatives = 3
    c.row_length = 128
    c.lanes = 1
    c.batch_pairs = 16
    c.window = 128
    # After MLM the loss falls below a constant score's (1.39) late. With 100 questions of a wiki: RR@10 .431 after two epochs
    # at 5e-5, .452 after six at 1e-4, .458 after four and .722 after eight at 2e-4; after HARP .929 with four and .931 with eight.
    c.epochs = 12.0
    c.learning_rate = 2e-4
    c.log_every = 5
    c.dtype = "auto"  # bfloat16 on CPUs with AMX or AMD's AVX512-BF16, where it halves the time
    return c
