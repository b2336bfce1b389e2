"""Pairs from text that WikiExtractor has extracted (`--json --links`), files or folders AA/wiki_00, plain or .bz2.

python -m data_pipeline.main --config=configs/data/wikiextractor.py --output=pairs \
    --config.source.paths="('extracted',)" --config.source.redirects="('redirects.tsv',)" \
    --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

WikiExtractor leaves redirects out: give them as files of alias<TAB>title, or lose the links through them. The dump itself
(enwiki.py) has them, and the ends of first sections too, which most versions of WikiExtractor do not tell.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "wikiextractor"
    config.source.paths = ("extracted",)
    config.workers = 8
    return config
