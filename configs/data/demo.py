"""Pairs from the small invented wiki, half a minute on 2 cores. `make demo` runs it as one step of its plan.

harp sample-wiki --output=demo/wiki --pages=400
python -m data_pipeline.main --config=configs/data/demo.py --config.tokenizer=start --output=demo/pairs
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "mediawiki"
    config.source.paths = ("demo/wiki/wiki.xml.bz2",)
    config.tokenizer = "start"
    config.encoder = "idf"  # the attention of three layers of a sentence encoder does not weigh words
    config.weighting = "normalised"  # a softmax over shares of attention is uniform
    # The other tasks are left out. RQP: S1 holds a name and S2 does not, which a model learns without reading the page (.99). RDP:
    # nothing in these sentences says which of two links matters more. ACM: pages of one region, which no question asks for.
    config.tasks = ("adp", "qdm")
    config.qdm_positives = 0  # all occurrences: few pages share a name
    config.qdm_negative = (
        "occurrence"  # in proportion to links, like positives; uniform, in-links alone reached .65 on an earlier wiki
    )
    config.min_article_words = 0  # its pages are a few sentences long
    config.validation_fraction = 0.05
    return config
