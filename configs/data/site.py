"""Pages of `harp site`, and its pairs: any site with links, a few minutes on 2 cores. This file alone defines their recipe.

harp site build/html --output=x --train=ranker --start=MiniLM-L6-v2/
python -m data_pipeline.main --config=configs/data/site.py --config.source.paths="('build/html',)" \
    --config.tokenizer=MiniLM-L6-v2/ --output=pairs

Documents include their titles, in pairs as in ranking: a section's title is often its most informative part.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset or "recommended")  # ADP, whose figures are in docs/lab/links.md
    config.source.format = ""  # detected
    config.source.paths = ("site",)
    config.encoder = "idf"  # term weights without an encoder: a minute instead of many
    config.document_title = True  # ADP does not draw its query from the page
    config.min_article_words = 10
    config.max_query_tokens = 32
    config.max_doc_tokens = 96  # what a row of configs/site.py holds
    config.validation_fraction = 0.2  # of the source pages: their anchors are the test queries
    return config
