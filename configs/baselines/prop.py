"""Control: PROP, which tells the likelier of two word sets of a page; B-PROP with --config.prop_distribution=contrastive.

python -m data_pipeline.main --config=configs/data/enwiki.py --config.tasks="('prop',)" --output=enwiki_prop
python -m harp_jax.main --config=configs/baselines/prop.py --workdir=runs/prop --config.init=bert-base-uncased/

Hardware, time and budget: those of configs/baselines/harp.py.
The same documents as HARP's: --config.text_pages=linked in the generation job; all documents: without it, or any plain
collection as JSONL.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_prop",)
    c.tasks = ("prop",)
    return c
