"""LinkLearn: a text similarity learned from hyperlinks, for any collection (Grangier and Bengio, 2005).

harp linklearn-train --config=configs/baselines/linklearn.py --workdir=runs/linklearn \
    --config.docs="('pages.jsonl.xz','collection.jsonl.xz')" --config.redirects="('redirects.tsv',)"
harp linklearn-rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec

Hardware: 2 CPU cores. Time: about two minutes for 1.4 million constraints (steps=3000), after a minute of reading. Figures:
harp_jax/experiments/linklearn.py.
"""

from harp_jax.config import linklearn


def get_config():
    return linklearn()
