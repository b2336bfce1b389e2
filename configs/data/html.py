"""Pairs from a web site of your own: a documentation build, an intranet wiki's export, a mirror made by wget.

python -m data_pipeline.main --config=configs/data/html.py --output=pairs \
    --config.source.paths="('build/html',)" --config.source.base_url=https://docs.example.org/ \
    --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

Needs the extra [web]. `base_url` is the URL under which the folder is served: with it, links written as whole URLs find
their pages; `--config.source.base_url=https://` suits a folder that `wget --mirror` has filled, host by host, with -k and -E or
without. Links that more than half of a host's pages share are dropped as boilerplate (`source.boilerplate_share`); the
manifest's `losses` count them, and all else that was left out. Of a destination the model sees the first section, up to the
first heading with text above it.

Sites are small: pages from 20 words on are read, and a twentieth of the pages is held out.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "html"
    config.source.paths = ("site",)
    config.min_article_words = 20
    config.validation_fraction = 0.05
    return config
