"""LinkLearn: a text similarity learned from hyperlinks, for any collection (Grangier and Bengio, 2005).

harp linklearn-train --config=configs/baselines/linklearn.py --workdir=runs/linklearn \
    --config.docs="('pages.jsonl.xz','collection.jsonl.xz')" --config.redirects="('redirects.tsv',)"
harp linklearn-rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec

Hidden units and learning rate are selected on held-out links, as in the paper: nine trainings; for one,
--config.hidden="(10,)" --config.learning_rates="(0.003,)".

Hardware: 2 CPU cores. Time: about two minutes a training for 1.4 million constraints (steps=3000), after a minute of reading.
Figures: docs/lab/linklearn.md.
"""

from harp_jax.config import linklearn


def get_config():
    c = linklearn()
    c.hidden = (5, 10, 20)
    c.learning_rates = (1e-3, 3e-3, 1e-2)
    return c
