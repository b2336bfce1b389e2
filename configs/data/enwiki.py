"""HARP's pairs from English Wikipedia (paper section 4.1.1): about 38 M pairs by its Table 1, printed by `harp inspect`.

python -m data_pipeline.main --config=configs/data/enwiki.py:paper --output=DIR \
    --config.encoder=bert-base-uncased --config.tokenizer=bert-base-uncased

reads the dump of 1 January 2021, as in the paper, in this folder: enwiki-20210101-pages-articles-multistream.xml.bz2.
dumps.wikimedia.org/enwiki/DATE/ has those of the last months; older dumps are on mirrors and at archive.org. Another date, or the
parts of a dump: --config.source.paths="('enwiki-DATE-pages-articles-multistream*.xml*.bz2',)".

`encoder` is the checkpoint that pre-training starts from, as a local Hugging Face directory; its attention weighs the terms.
The workers decompress a multistream dump in parallel, and a damaged block loses only its own pages (counted in the manifest as one
`page-in-damaged-block`); other dumps are decompressed by one process.
The term weights need an accelerator; all other stages run on the CPU. Not run at full size yet.
"""

from ml_collections import ConfigDict

from data_pipeline.config import generation


def get_config(preset: str = "") -> ConfigDict:
    config = generation(preset)
    config.source.format = "mediawiki"
    config.source.paths = ("enwiki-20210101-pages-articles-multistream.xml.bz2",)
    config.tokenizer = config.encoder = "bert-base-uncased"
    config.encoder_dtype = "bfloat16"
    config.linking_pages = 0.1  # all links would make about ten times the pairs of Table 1 (docs/lab/day-one.md)
    config.workers = 32
    config.memory_limit = "64GB"
    config.validation_fraction = 0.001
    return config
