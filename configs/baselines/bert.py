"""Control: BERT pre-trained further with MLM only, on HARP's pairs with a pair weight of 0.

harp train --config=configs/baselines/bert.py --workdir=runs/bert --config.init=bert-base-uncased/

Hardware, time and budget: see configs/baselines/harp.py. Figure: not run yet. To train on running text of all documents
instead: --config.tasks="('mlm',)" with data of the generation job's task "mlm".
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.pair_weight = 0.0
    return c
