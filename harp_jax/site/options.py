"""The options of `harp site`, each declared once."""

import math
from dataclasses import dataclass

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.made import InputPath, InputPaths
from harp_jax.config import read_config

FIELDS = ("title", "body")  # of the documents
MAX_LENGTH = 128  # tokens, as in configs/site.py


@dataclass(frozen=True)
class Source:
    """Pages and how to read them.

    pages: folders of HTML, WARC files, MediaWiki dumps or linked JSONL, of one format
    format: format of the pages, if it is not detected correctly
    base_url: URL at which a folder of HTML is served
    language: language of the pages, such as de (declared, else detected; en for JSONL)
    redirects: file of alias<TAB>address lines
    exclude: pages to skip, by address, such as '*/news/*'
    split: whether HTML pages or their sections are the documents; auto: sections if most links lead to one
    """

    pages: InputPaths
    format: str = ""
    base_url: str = ""
    language: str = ""
    redirects: InputPaths = ()
    exclude: tuple[str, ...] = ()
    split: str = "auto"

    def config(self) -> ConfigDict:
        """The generation config that reads these pages."""
        config = read_config("data/site")
        config.source.update(format=self.format, paths=self.pages, base_url=self.base_url, split=self.split)
        config.source.update(redirects=self.redirects, exclude=self.exclude)
        config.language = self.language
        return config


@dataclass(frozen=True)
class Training:
    """What is trained on the links, and how; vectors have only start and seed.

    model: ranker, or vectors: the encoder is adapted by a linear map, for a vector database
    start: Hugging Face encoder to start from (the site's encoder; without one, a small one from scratch)
    layers: keep only this many first layers of it; 0: all
    vocabulary: kind for an encoder from scratch: wordpiece, unigram, or auto: unigram for languages without spaces
    minutes: of training; the other steps take extra time
    max_length: tokens of query and document together, in training and in each window
    seed: random seed for pairs and training
    """

    model: str = "ranker"
    start: InputPath = ""
    layers: int = 0
    vocabulary: str = "auto"
    minutes: float = 30.0
    max_length: int = MAX_LENGTH
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.minutes < math.inf:
            raise InputError(f"--minutes={self.minutes:g}: use a positive number")


@dataclass(frozen=True)
class SiteOptions:
    """What `harp site` reads, how it searches and tests, and whether it trains.

    encoder: folder of a sentence encoder (all-MiniLM-L6-v2, if it was downloaded from the Hub); none: no vectors
    labels: file of query<TAB>docid<TAB>level lines to decide by (and to fine-tune on); with queries: qid 0 docid level
    queries: file of the queries of labels by id
    max_queries: maximum number of test queries, which are anchors of held-out pages
    context_words: words of an anchor's sentence to add to its query
    depth: candidates per query from each first stage (BM25, BM25F, vectors)
    windows: maximum windows of a long document that the encoder and the ranker read; the best one counts
    training: how to train a ranker on the links; None: no training
    """

    source: Source
    encoder: str = ""
    labels: InputPath = ""
    queries: InputPath = ""
    max_queries: int = 400
    context_words: int = 3
    depth: int = 20
    windows: int = 4
    training: Training | None = None
