"""Pairs from a web site of your own: a documentation build, an intranet wiki's export, a mirror made by wget.

python -m data_pipeline.main --config=configs/data/html.py --output=pairs \
    --config.source.paths="('build/html',)" --config.source.base_url=https://docs.example.org/ \
    --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

Needs the extra [web]. `base_url` is the URL where the folder is served: with it, links written as whole URLs resolve;
`--config.source.base_url=https://` is for the output of `wget --mirror`, one folder per host, with or without -k and -E.
Links on more than half of a host's pages are dropped as boilerplate; the manifest counts everything dropped under `losses`. The
document of a destination is its first section, up to the first heading with text above it; if most
links of the site lead to sections (`page.html#term`), every anchored heading and term is a document (`source.split`).

Sites are small: pages of 20 or more words are kept, and a twentieth of the pages is held out.
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
