"""Control: Transformer-ICT, which predicts the passage that a sentence was taken from.

harp generate --config=configs/data/enwiki.py --config.tasks="('ict',)" --output=enwiki_ict
harp train --config=configs/baselines/ict.py --workdir=runs/ict --config.init=bert-base-uncased/

Hardware, time and budget: see configs/baselines/harp.py. Figure: not run yet.
To use the same documents as HARP, set --config.text_pages=linked in the generation job; without it, all documents, or any plain
collection as JSONL.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_ict",)
    c.tasks = ("ict",)
    return c
