"""Fine-tunes the demo's BERT-tiny on the invented wiki's training questions: binary cross-entropy, 1:7 negatives.

python -m harp_jax.main --config=configs/finetune_demo.py --workdir=runs/ranker --config.init=runs/demo --config.docs=docs.tsv …

Hardware: 2 CPU cores, about a minute. Used by configs/experiments/demo.py.
"""

from harp_jax.defaults import finetune


def get_config():
    c = finetune()
    c.model.layers = 2
    c.model.hidden = 128
    c.model.heads = 2
    c.model.max_positions = 512
    c.init_head = "pretrained"  # a fresh head on so small an encoder learns nothing from some hundred questions
    c.row_length = 256
    c.lanes = 1
    c.batch_pairs = 32
    c.window = 128
    c.epochs = 3.0
    c.learning_rate = 5e-4
    c.log_every = 10
    c.checkpoint_every = 1000
    return c
