"""The job of enwiki.py on Simple English Wikipedia, for a first run with real links on a workstation.

python -m data_pipeline.main --config=configs/data/simplewiki.py --output=DIR \
    --config.source.paths="('simplewiki-latest-pages-articles-multistream.xml.bz2',)" \
    --config.encoder=ENCODER --config.tokenizer=ENCODER

Many of its articles are stubs: the minimum is 50 words instead of 100. Not run at full size yet.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "mediawiki"
    config.source.paths = ("simplewiki-*-pages-articles-multistream.xml.bz2",)
    config.tokenizer = config.encoder = "bert-base-uncased"
    config.min_article_words = 50
    config.workers = 8
    return config
