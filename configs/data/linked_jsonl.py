"""Pairs from your own linked documents, one JSON object per line: {"id", "title", "text", "links": [{"start", "end", "target"}]}.

python -m data_pipeline.main --config=configs/data/linked_jsonl.py --output=pairs \
    --config.source.paths="('docs/*.jsonl.xz',)" --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

text[start:end] is the anchor text, in code points; `target` is the id of the destination. The optional `lead_end` is the end of a
document's first section, which represents the document as a destination. Documents without links are only destinations.
Aliases of ids go into `source.redirects`, files of alias<TAB>id.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "linked_jsonl"
    config.source.paths = ("documents.jsonl",)
    config.min_article_words = 0  # the file contains only documents to use
    return config
