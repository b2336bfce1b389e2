"""HARP under a budget that its controls share to the token: configs/tpu_v3.py with the rows of a batch fixed.

python -m harp_jax.main --config=configs/baselines/harp.py --workdir=runs/harp --config.init=bert-base-uncased/

Hardware and time: those of configs/tpu_v3.py. 128 pairs of HARP (two sequences of about 96 tokens each) fill 56 rows of 512.
bert.py, ict.py, wlp.py and prop.py start from this config: the same number of rows, updates, schedule and start, so as many
real tokens however long a task's pairs are. The data and the tasks' weights differ, nothing else; try the same learning
rates for all.
"""

from harp_jax.configs import tpu_v3


def get_config():
    c = tpu_v3.get_config()
    c.rows = 56
    return c
