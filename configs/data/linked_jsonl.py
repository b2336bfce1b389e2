"""Pairs from your own linked documents: a JSON object a line, {"id", "title", "text", "links": [{"start", "end", "target"}]}.

python -m data_pipeline.main --config=configs/data/linked_jsonl.py --output=pairs \
    --config.source.paths="('docs/*.jsonl.xz',)" --config.tokenizer=bert-base-uncased/ --config.encoder=bert-base-uncased/

text[start:end] is the anchor text, in code points; `target` is the id of the destination. `lead_end` may say where a document's
first section ends: it is what the model sees of a destination. Documents without links are destinations only. Aliases of ids
go into `source.redirects`, files of alias<TAB>id.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "linked_jsonl"
    config.source.paths = ("documents.jsonl",)
    config.min_article_words = 0  # whoever wrote the file has chosen its documents
    return config
