"""Fine-tune BERT-tiny on judged queries in about a minute: binary cross-entropy, 1:7 negatives.

harp train --config=configs/finetune_bert_tiny.py --workdir=runs/ranker --config.init=runs/harp --config.docs=docs.tsv …

Hardware: 2 CPU cores. Used by the examples of docs/library.md.
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.init_head = "pretrained"  # with so small an encoder, a new head learns nothing from a few hundred questions
    c.row_length = 256
    c.lanes = 1
    c.batch_pairs = 32
    c.window = 128
    c.epochs = 3.0
    c.learning_rate = 5e-4
    c.log_every = 10
    return c
