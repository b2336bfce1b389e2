"""Pages to documents, anchor texts and test queries: the folder `pages` of a site; `Site` has the same as Python objects."""

import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.base.made import AGAIN, once
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Qrels, read_qrels, read_queries
from harp_jax.ranking.first_stage import anchor_rows, indexed
from harp_jax.ranking.lexical import InvertedIndex, make, search
from harp_jax.site.options import FIELDS, SiteOptions, Source

if TYPE_CHECKING:
    from data_pipeline.output.survey import Survey

# The best for users' queries on five manuals; parameters fitted to held-out anchors were worse (docs/lab/site.md).
PARAMETERS = {"bm25": {"k1": 4.0, "b": 0.4}, "bm25f": {"k1": 4.0, "b": 0.4, "anchor_weight": 10.0}}
MIN_QUERIES = 50  # the 95 % interval of RR@10 is then about ±.1
MIN_LINKS = 500  # fewer were never tried
# Folders and names of release notes, which have the words of every feature.
_RELEASE_NOTES = re.compile(
    r"/((?:release-?notes|releases?|relnotes|whats-?new|changelogs?)(?:/|[-_](?=\d)))", re.IGNORECASE
)
MANY_NOTES = 5  # pages; fewer do not disturb
# What the reader of pages drops, in words; rarer reasons are printed as they are.
REASONS = {
    "link-unresolved": "links to other sites and missing pages", "link-outside-content": "links in menus and footers",
    "text-outside-content": "text in menus and footers", "link-in-heading": "links in headings",
    "link-on-index-page": "links on index pages", "link-boilerplate": "links that many pages repeat",
    "link-to-itself": "links of a page to itself", "link-to-short-page": "links to short pages",
    "link-empty": "links without text", "page-too-short": "short pages", "page-index": "index pages",
    "link-self": "links within a page", "link-invalid": "links that are no addresses", "anchor-number": "links that are numbers",
    "anchor-boilerplate": "links such as 'next' and 'click here'", "anchor-too-long": "links with long texts",
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """What `read_pages` found. `shortage`: why the links are too few for a test, or ""; `change` since the last reading, or "";
    `text`: all of it in words."""

    documents: int
    language: str
    format: str
    anchor_texts: int
    queries: int
    shortage: str
    change: str
    text: str


@once(changed=AGAIN)
def read_pages(source: Source, max_queries: int, context_words: int, output: str) -> Read:
    """Writes docs.jsonl, anchors.tsv, and held-out anchors as queries.tsv, qrels.txt and sources.tsv; replaces an earlier reading.
    `context_words` of its sentence are added to each anchor. Raises InputError for bad input."""
    from data_pipeline.output.survey import write_survey

    fresh, before = f"{output}.new", contents(output)
    shutil.rmtree(fresh, ignore_errors=True)
    survey = write_survey(source.config(), fresh, max_queries, context_words)
    after, change = contents(fresh), ""
    if before:
        changed = sum(before.get(page, hash_) != hash_ for page, hash_ in after.items())
        new, gone = len(after.keys() - before.keys()), len(before.keys() - after.keys())
        change = f"{new:,} pages are new, {changed:,} changed, {gone:,} gone"
    shutil.rmtree(output, ignore_errors=True)
    os.rename(fresh, output)
    text = re.sub(r"^  ([\w-]+)", lambda why: f"  {REASONS.get(why[1], why[1])}", survey["text"], flags=re.MULTILINE)
    return Read(
        documents=survey["documents"],
        language=survey["language"],
        format=survey["format"],
        anchor_texts=survey["anchor_texts"],
        queries=survey["queries"],
        shortage=shortage(survey),
        change=change,
        text=text + to_exclude(after),
    )


def contents(folder: str) -> dict[str, int]:
    """Page → hash of its documents, in a folder of `read_pages`; empty if there is none."""
    path, hashes = os.path.join(folder, "docs.jsonl"), dict[str, int]()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                page = json.loads(line)["id"].partition("#")[0]
                hashes[page] = hash64(hashes.get(page, 0), line)
    return hashes


def to_exclude(pages: Iterable[str]) -> str:
    """Advice to leave out release notes, with the patterns of their addresses; empty if there are few."""
    patterns = Counter(f"*/{match[1]}*" for page in pages if (match := _RELEASE_NOTES.search(page)))
    options = " ".join(f"--exclude='{pattern}'" for pattern in sorted(patterns))
    notes = f"\n{patterns.total():,} pages look like release notes, which often rank above references; to skip them: {options}"
    return notes if patterns.total() >= MANY_NOTES else ""


def shortage(survey: "Survey") -> str:
    """Why the links of a survey are too few to test with; empty if there are enough."""
    links, queries, needed = survey["links_kept"], survey["queries"], ""
    if links < MIN_LINKS:
        needed = f"too few links ({links:,} usable, {MIN_LINKS} needed)"
    elif queries < MIN_QUERIES:
        estimate = 100 * math.ceil(links * MIN_QUERIES / max(1, queries) / 100)
        enough = f"; that takes about {estimate:,} links like these {links:,}" if queries else ""
        needed = f"too few links ({queries} test queries, {MIN_QUERIES} needed{enough})"
    reasons = sorted(survey["losses"].items(), key=lambda item: -item[1]["count"])[:3]
    lost = ", ".join(f"{REASONS.get(reason, reason)} {entry['count']:,}" for reason, entry in reasons)
    return f"{needed}. Dropped most: {lost}" if needed and lost else needed


class Site:
    """The documents and links of pages, read once into the folder `directory` (`read_pages`).

    `source` names the pages; `Reranker.pretrain` trains on them.

    >>> import harp_jax as hj
    >>> site = hj.Site.from_pages("pages.jsonl")
    >>> len(site.documents) > 0, len(site.pairs()) > 0
    (True, True)
    >>> docid, text = next(iter(site.documents.items()))
    >>> site.bm25(text, k=1)[0][0] == docid
    True
    """

    def __init__(self, directory: str, source: Source, temporary: Any = None) -> None:
        self.directory, self.source, self._temporary = directory, source, temporary

    @classmethod
    def from_pages(
        cls,
        pages: str | os.PathLike[str] | Sequence[str],
        format: str = "",
        base_url: str = "",
        redirects: Sequence[str] = (),
        language: str = "",
        directory: str = "",
    ) -> "Site":
        """Reads HTML, a WARC, a MediaWiki dump or linked JSONL; format and language are detected unless given. Raises InputError
        for bad input."""
        paths = (os.fspath(pages),) if isinstance(pages, str | os.PathLike) else tuple(pages)
        if not paths:
            raise InputError("no pages; name a folder of HTML, a WARC, a dump or linked JSONL")
        source = Source(paths, format, base_url, language, tuple(redirects))
        temporary = tempfile.TemporaryDirectory(prefix="harp-site-") if not directory else None
        pages_dir = os.path.join(temporary.name, "pages") if temporary else directory
        read_pages(source, SiteOptions.max_queries, 0, output=pages_dir)
        return cls(pages_dir, source, temporary)

    @cached_property
    def documents(self) -> dict[str, str]:
        """docid → title and text, all in memory."""
        return dict(Documents.open(os.path.join(self.directory, "docs.jsonl"), FIELDS).texts())

    def pairs(self) -> list[tuple[str, str]]:
        """(anchor text, docid) for each anchor text of each document, without held-out pages: positives for any trainer."""
        return [(text, docid) for docid, text, _ in anchor_rows(os.path.join(self.directory, "anchors.tsv"))]

    def held_out(self) -> tuple[dict[str, str], Qrels]:
        """(queries, judgments): anchor texts that only held-out pages use, and where they lead."""
        path = self.directory
        return read_queries(os.path.join(path, "queries.tsv")), read_qrels(os.path.join(path, "qrels.txt"))

    @cached_property
    def _index(self) -> InvertedIndex:
        language = read_json(os.path.join(self.directory, "survey.json"))["language"]
        return indexed(self.documents.items(), "bm25", language)

    def bm25(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents of a query as (docid, score); fewer if fewer share a word with it."""
        docids, scores = search(make("bm25", self._index, PARAMETERS["bm25"]), self._index, query, k)
        return [(docid, float(score)) for docid, score in zip(docids, scores)]
