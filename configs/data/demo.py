"""Pairs from the small invented wiki, about a minute on 2 cores. `make demo` runs it as one step of its plan.

harp sample-wiki --output=demo/wiki
harp vocabulary --config=configs/data/demo.py --output=demo/vocabulary --size=2000
python -m data_pipeline.main --config=configs/data/demo.py --config.tasks="('mlm',)" --output=demo/text
python -m harp_jax.main …  (BERT-tiny on demo/text from random weights, workdir demo/mlm)
python -m data_pipeline.main --config=configs/data/demo.py --config.encoder=demo/mlm --output=demo/pairs
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "mediawiki"
    config.source.paths = ("demo/wiki/wiki.xml.bz2",)
    config.tokenizer = "demo/vocabulary"
    config.encoder = "uniform"
    config.min_article_words = 0  # its pages are a few sentences long
    config.max_text_tokens = 125  # two pieces fill a row of 256 tokens
    config.validation_fraction = 0.05
    return config
