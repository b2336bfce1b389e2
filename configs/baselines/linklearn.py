"""LinkLearn: a text similarity learned from hyperlinks, for any collection (Grangier and Bengio, 2005).

python -m harp_jax.linklearn.train --config=configs/baselines/linklearn.py --workdir=runs/linklearn \
    --config.docs="('pages.jsonl.xz','collection.jsonl.xz')" --config.redirects="('redirects.tsv',)"
python -m harp_jax.linklearn.rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec

Hardware: 2 CPU cores, about two minutes for 1.4 million constraints after a minute of reading (steps=3000).
"""

from harp_jax.defaults import linklearn


def get_config():
    return linklearn()
