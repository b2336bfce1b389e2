"""Control: PROP, which predicts the likelier of two word sets of a page; B-PROP with --config.prop_distribution=contrastive.

harp generate --config=configs/data/enwiki.py --config.tasks="('prop',)" --output=enwiki_prop
harp train --config=configs/baselines/prop.py --workdir=runs/prop --config.init=bert-base-uncased/

Hardware, time and budget: see configs/baselines/harp.py. Figure: not run yet.
To use the same documents as HARP, set --config.text_pages=linked in the generation job; without it, all documents, or any plain
collection as JSONL.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_prop",)
    c.tasks = ("prop",)
    return c
