"""Control: Transformer-ICT, which tells the passage that a sentence was taken from.

python -m data_pipeline.main --config=configs/data/enwiki.py --config.tasks="('ict',)" --output=enwiki_ict
python -m harp_jax.main --config=configs/baselines/ict.py --workdir=runs/ict --config.init=bert-base-uncased/

Hardware, time and budget: those of configs/baselines/harp.py.
The same documents as HARP's: --config.text_pages=linked in the generation job; all documents: without it, or any plain
collection as JSONL.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_ict",)
    c.tasks = ("ict",)
    return c
