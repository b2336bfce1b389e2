"""HARP under a budget that its controls share: configs/tpu_v3.py with the real tokens of a batch fixed.

python -m harp_jax.main --config=configs/baselines/harp.py --workdir=runs/harp --config.init=bert-base-uncased/

Hardware and time: those of configs/tpu_v3.py. 27,500 real tokens are about 128 pairs of HARP (two sequences of about 107 tokens
each), 55 rows of 512. bert.py, ict.py, wlp.py and prop.py start from this config: batches end at the same number of real
tokens, however long a task's pairs are and however well they pack; the number of rows follows from that. The updates, the
schedule and the start are the same. The data and the tasks' weights differ, nothing else; try the same learning rates for all.
"""

from harp_jax.configs import tpu_v3


def get_config():
    c = tpu_v3.get_config()
    c.batch_tokens = 27_500
    return c
