"""HARP with the same budget as its controls: configs/tpu_v3.py with a fixed number of real tokens per batch.

harp train --config=configs/baselines/harp.py --workdir=runs/harp --config.init=bert-base-uncased/

Hardware and time: see configs/tpu_v3.py. Figure: not run yet. 27,500 real tokens are about 128 pairs of HARP (two sequences of
about 107 tokens each), 55 rows of 512. bert.py, ict.py, wlp.py and prop.py start from this config: batches end at the same
number of real tokens, regardless of the lengths of a task's pairs and how well they pack; the number of rows is derived. Number
of updates, schedule and initial parameters are the same. Only data and task weights differ; try the same learning rates for all.
"""

from harp_jax.configs import tpu_v3


def get_config():
    c = tpu_v3.get_config()
    c.batch_tokens = 27_500
    return c
