"""Control: BERT pre-trained further with MLM alone, on HARP's own pairs with a pair weight of 0.

python -m harp_jax.main --config=configs/baselines/bert.py --workdir=runs/bert --config.init=bert-base-uncased/

Hardware, time and budget: those of configs/baselines/harp.py. For the regime of all documents read running text instead:
--config.tasks="('mlm',)" with data of the generation job's task "mlm".
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.pair_weight = 0.0
    return c
