"""`Site`: pages with links as Python objects: documents, what links call them, BM25, and test queries from held-out pages."""

import importlib
import os
import tempfile
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.config import read_config
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Qrels, read_qrels, read_queries
from harp_jax.ranking.lexical.anchors import anchor_rows
from harp_jax.ranking.lexical.first_stage import indexed
from harp_jax.ranking.lexical.models import Collection, make, search

FIELDS = ("title", "body")


class Site:
    """The documents and links of a site, read once into the folder `directory` (`harp survey`).

    `options` are those of the plan behind `harp site` that name the pages; `Reranker.pretrain` passes them on.

    >>> import harp_jax as hj
    >>> site = hj.Site.from_pages("pages.jsonl")
    >>> len(site.documents) > 0, len(site.pairs()) > 0
    (True, True)
    >>> docid, text = next(iter(site.documents.items()))
    >>> site.bm25(text, k=1)[0][0] == docid
    True
    """

    def __init__(self, directory: str, options: dict[str, Any], temporary: Any = None) -> None:
        self.directory, self.options, self._temporary = directory, options, temporary

    @classmethod
    def from_html(cls, folder: str | os.PathLike[str], base_url: str = "", directory: str = "") -> "Site":
        """Reads a folder of HTML that is served at `base_url`; its documents go to `directory` (a temporary one)."""
        return cls.from_pages(folder, format="html", base_url=base_url, directory=directory)

    @classmethod
    def from_pages(
        cls,
        pages: str | os.PathLike[str] | Sequence[str],
        format: str = "",
        base_url: str = "",
        redirects: Sequence[str] = (),
        directory: str = "",
    ) -> "Site":
        """Reads HTML, a WARC, a MediaWiki dump or linked JSONL, told by content unless `format` names it.

        Raises InputError for bad input.
        """
        paths = (os.fspath(pages),) if isinstance(pages, str | os.PathLike) else tuple(pages)
        if not paths:
            raise InputError("no pages; name a folder of HTML, a WARC, a dump or linked JSONL")
        # By name, at the call: harp_jax works without the generation job.
        found = format or importlib.import_module("data_pipeline.sources.formats").format_of_content(paths[0])
        source = {"format": found, "paths": paths, "base_url": base_url, "redirects": tuple(redirects)}
        config = read_config("data/site")
        config.update_from_flattened_dict({f"source.{name}": value for name, value in source.items()})
        temporary = tempfile.TemporaryDirectory(prefix="harp-site-") if not directory else None
        place = os.path.join(temporary.name, "survey") if temporary else directory
        importlib.import_module("data_pipeline.site.survey").write_survey(config, place)
        return cls(
            place, {"pages": paths, "format": found, "base_url": base_url, "redirects": tuple(redirects)}, temporary
        )

    @cached_property
    def documents(self) -> dict[str, str]:
        """docid → title and text, all in memory."""
        return dict(Documents.open(os.path.join(self.directory, "docs.jsonl"), FIELDS).texts())

    def pairs(self) -> list[tuple[str, str]]:
        """(anchor text, docid) for each text of each document, without the held-out pages: positives for any trainer."""
        return [(text, docid) for docid, text, _ in anchor_rows(os.path.join(self.directory, "anchors.tsv"))]

    def held_out(self) -> tuple[dict[str, str], Qrels]:
        """(queries, judgments): anchor texts that only held-out pages use, and where they lead."""
        path = self.directory
        return read_queries(os.path.join(path, "queries.tsv")), read_qrels(os.path.join(path, "qrels.txt"))

    @cached_property
    def _index(self) -> Collection:
        return indexed(self.documents.items(), "bm25", "english")

    def bm25(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents of a query as (docid, score); fewer where fewer share a word with it."""
        docids, scores = search(make("bm25", self._index, {}), self._index, query, k)
        return [(docid, float(score)) for docid, score in zip(docids, scores)]
