"""Hyperlinks as constraints: a document is more similar to a linked one (in either direction) than to another (Eq. 2).

Linked documents are JSONL, `{"id", "title", "text", "links": [{"start", "end", "target"}]}`, the format of `data_pipeline`;
lines without "links" are destinations only.

Documents with the same title (a page, its lead, the rows of its tables) are one article; a document without a title is an
article named by its id. Articles are split as a whole into training and validation, links within an article are ignored, and
a document is never a negative for its own article.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import expand, lines
from harp_jax.base.randomness import hash64
from harp_jax.baselines.linklearn.model import count
from harp_jax.corpus.text_files import checked_text, parse_object
from harp_jax.ranking.lexical import InvertedIndex

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger(__name__)

TRIES = 50  # draws of a negative before the document is replaced by another


@dataclass(frozen=True)
class Graph:
    """Documents and their links."""

    docids: list[str]
    counts: "csr_array"
    articles: list[str]  # names: titles, or ids of documents without one
    article: np.ndarray  # [documents] int64: number of a document's article
    source: np.ndarray  # [documents] int32: number of the path or glob of a document's file
    edges: np.ndarray  # [2 × links, 2] int64, ascending: both directions of each link


def read_graph(paths: tuple[str, ...], redirects: tuple[str, ...] = (), language: str = "en") -> Graph:
    """Reads linked documents, streaming; drops links to missing documents and within an article.

    The files of one path or glob are one source, with texts of similar length and style. Documents with the same id, such as
    rows of a table, are all kept; links lead to the first. Raises InputError for malformed lines, and if no link is left.
    """
    # alias → document id.
    aliases: dict[str, str] = {}
    for path in expand(redirects):
        for number, line in lines(path):
            alias, tab, target = line.partition("\t")
            if line.strip() and not (tab and target.strip()):
                raise InputError(f"{path}, line {number}: not 'alias<TAB>id'; correct the line")
            if tab:
                aliases[alias] = target.strip()

    # One pass over the documents, whose texts are counted while they are read.
    docids: list[str] = []
    numbers: dict[str, int] = {}
    articles: dict[str, int] = {}
    article: list[int] = []
    source: list[int] = []
    links: list[tuple[int, str]] = []

    def texts() -> Iterator[tuple[str, str]]:
        for of_source, entry in enumerate(paths):
            for where, line in ((f"{path}, line {n}", line) for path in expand((entry,)) for n, line in lines(path)):
                if not line.strip():
                    continue
                record = parse_object(where, line)
                try:
                    docid, text = str(record["id"]), record["text"]
                    links.extend((len(docids), str(link["target"])) for link in record.get("links", ()))
                except (KeyError, TypeError) as error:
                    advice = "write id, title, text and links"
                    raise InputError(f"{where}: not a linked document ({error!r}); {advice}") from error
                # Otherwise null would become the word "none".
                title = checked_text(where, record.get("title") or "", "title").strip()
                text = checked_text(where, text, "text")
                numbers.setdefault(docid, len(docids))
                article.append(articles.setdefault(title or docid, len(articles)))
                docids.append(docid)
                source.append(of_source)
                yield docid, f"{title} {text}"

    counts = count(InvertedIndex(texts(), language))
    if len(docids) > len(numbers):
        log.warning("%d documents have the id of an earlier one; links lead to the first", len(docids) - len(numbers))

    # Links in both directions, without duplicates.
    pairs = [(d, numbers.get(aliases.get(target, target), d)) for d, target in links]
    edges = np.array([(a, b) for a, b in pairs if article[a] != article[b]], np.int64).reshape(-1, 2)
    if not len(edges):
        raise InputError(
            f"none of {len(links)} links leads to another document of {', '.join(paths)}; check the ids, and that titles differ"
        )
    both = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
    return Graph(docids, counts, list(articles), np.array(article, np.int64), np.array(source, np.int32), both)


class GraphSplit:
    """The training or the validation documents, with the links among them."""

    def __init__(self, graph: Graph, documents: np.ndarray) -> None:
        self.graph, self.documents = graph, documents
        inside = np.zeros(graph.counts.shape[0], bool)
        inside[documents] = True
        # Links between the two sides are dropped; edges[starts[d] : starts[d + 1]] are those of d.
        self.edges = graph.edges[inside[graph.edges].all(axis=1)]
        self.starts = np.searchsorted(self.edges[:, 0], np.arange(graph.counts.shape[0] + 1))
        self.keys = self.edges[:, 0] * graph.counts.shape[0] + self.edges[:, 1]  # one ascending number a link
        self.queries = np.unique(self.edges[:, 0])  # documents that have a link, ascending
        # Documents that negatives are drawn from, by source: each once, or as often as it is linked.
        source, ends = graph.source, self.edges[:, 1]
        self.pools = {
            "uniform": {int(n): documents[source[documents] == n] for n in np.unique(source[ends])},
            "linked": {int(n): ends[source[ends] == n] for n in np.unique(source[ends])},
        }

    def linked(self, d: int) -> np.ndarray:
        """L(d) within this side."""
        return self.edges[self.starts[d] : self.starts[d + 1], 1]

    def draw(
        self, rng: np.random.Generator, documents: int, negatives: int, negatives_from: str = "uniform"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(d [n], l⁺ [n], l⁻ [n, negatives]): d uniform over documents with links, l⁺ uniform over L(d), l⁻ not in L(d)
        and not of d's article.

        A negative has the source of its positive; otherwise length and style would separate them. `negatives_from` is "uniform"
        over the source's documents, or "linked": in proportion to links, so that popularity is not informative. A document
        that is linked with nearly all others is replaced by another; InputError if none is left.
        """
        article, size = self.graph.article, self.graph.counts.shape[0]
        d, positive = np.zeros((2, documents), np.int64)
        negative = np.zeros((documents, negatives), np.int64)
        left, rows = self.queries, np.arange(documents)
        while len(rows):
            if not len(left):
                such = self.graph.docids[d[rows[0]]]
                raise InputError(
                    f"no document has negatives: each is linked with nearly all others, such as {such}; add documents"
                )
            d[rows] = left[rng.integers(len(left), size=len(rows))]
            positive[rows] = self.edges[rng.integers(self.starts[d[rows]], self.starts[d[rows] + 1]), 1]
            # Negatives that are linked with d, or are of its article, are drawn again.
            own, source, drawn = d[rows][:, None], self.graph.source[positive[rows]], negative[rows]
            wrong: np.ndarray = np.ones_like(drawn, bool)
            for _ in range(TRIES):
                for number, pool in self.pools[negatives_from].items():
                    here = wrong & (source == number)[:, None]
                    drawn[here] = pool[rng.integers(len(pool), size=int(here.sum()))]
                keys = own * size + drawn
                at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
                wrong = (self.keys[at] == keys) | (article[drawn] == article[own])
                if not wrong.any():
                    break
            negative[rows] = drawn
            rows = rows[wrong.any(axis=1)]
            left = np.setdiff1d(left, d[rows])
        return d, positive, negative


def split(graph: Graph, fraction: float, seed: int) -> tuple[GraphSplit, GraphSplit]:
    """(training, validation): disjoint articles, by hash; links between the two are dropped. InputError if a side has no links."""
    draws = [hash64(seed, "linklearn side", name) / 2**64 for name in graph.articles]
    chosen = (np.array(draws) < fraction)[graph.article]
    sides = GraphSplit(graph, np.flatnonzero(chosen)), GraphSplit(graph, np.flatnonzero(~chosen))
    for side, name in zip(sides, ("training", "validation")):
        if not len(side.edges):
            raise InputError(f"no link stays within the {name} documents; add documents")
    return sides


def shared_terms(
    counts: "csr_array", a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The common words of documents a [n] and b [n]: (pair, term, tf_a, tf_b); pair i shares `term` with its counts in a and b."""
    left, right = counts[a], counts[b]
    of_a, of_b = left.multiply(right.astype(bool)), right.multiply(left.astype(bool))
    return np.repeat(np.arange(len(a)), np.diff(of_a.indptr)), of_a.indices, of_a.data, of_b.data
