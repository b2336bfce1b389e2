"""Pairs from the format in which HARP's authors publish their data: one sentence per line, destinations by their text.

python -m data_pipeline.main --config=configs/data/harp_json.py --output=pairs \
    --config.source.paths="('demo_data.jsonl',)" --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

Their demo has 95 sentences and 100 anchors, of which 3 are malformed: counted as `anchor-malformed` and skipped.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "harp_json"
    config.source.paths = ("demo_data.jsonl",)
    config.min_article_words = 0  # its documents are sentences and passages
    return config
