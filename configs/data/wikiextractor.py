"""Pairs from WikiExtractor's output (`--json --links`): files or folders AA/wiki_00, plain or .bz2.

python -m data_pipeline.main --config=configs/data/wikiextractor.py --output=pairs \
    --config.source.paths="('extracted',)" --config.source.redirects="('redirects.tsv',)" \
    --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

WikiExtractor omits redirects: pass them as files of alias<TAB>title, or links through them are dropped. The dump itself
(enwiki.py) has them, and also the ends of first sections, which most versions of WikiExtractor omit.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "wikiextractor"
    config.source.paths = ("extracted",)
    config.workers = 8
    return config
