"""Control: Transformer-WLP, which distinguishes a page that links to the page of a sentence from one that does not.

harp generate --config=configs/data/enwiki.py --config.tasks="('wlp',)" --output=enwiki_wlp
harp train --config=configs/baselines/wlp.py --workdir=runs/wlp --config.init=bert-base-uncased/

Hardware, time and budget: see configs/baselines/harp.py. Figure: not run yet.
It needs links, so it is trained on HARP's documents only.
"""

from harp_jax.configs.baselines import harp


def get_config():
    c = harp.get_config()
    c.data = ("enwiki_wlp",)
    c.tasks = ("wlp",)
    return c
