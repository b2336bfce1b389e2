"""Control: Transformer-WLP, which tells a page that links to the page of a sentence from one that does not.

python -m data_pipeline.main --config=configs/data/enwiki.py --config.tasks="('wlp',)" --output=enwiki_wlp
python -m harp_jax.main --config=configs/baselines/wlp.py --workdir=runs/wlp --config.init=bert-base-uncased/

Hardware, time and budget: those of configs/baselines/harp.py.
It needs links, so there is one regime: the documents that HARP has.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_wlp",)
    c.tasks = ("wlp",)
    return c
