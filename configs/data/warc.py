"""Pairs from a crawl: WARC files of your own (wget --warc-file, Heritrix, browsertrix) or of Common Crawl.

python -m data_pipeline.main --config=configs/data/warc.py --output=pairs \
    --config.source.paths="('crawl/*.warc.gz',)" --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

Needs the extra [web]. Links are resolved by HTTP redirects, canonical links and <meta refresh> of the crawl; if a page was
captured several times, the first capture is used. The parent process finds the records, the workers parse them. Not run on a real
crawl yet.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "warc"
    config.source.paths = ("*.warc.gz",)
    config.workers = 8
    config.memory_limit = "16GB"
    return config
