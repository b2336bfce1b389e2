"""A `Reranker` in PyTerrier: `BM25 >> pt.text.get_text(index, "text") >> transformer(reranker)`; extra [pyterrier]."""

from typing import TYPE_CHECKING

from harp_jax.base.errors import InputError, needs
from harp_jax.ranking.maxp import Windows
from harp_jax.ranking.reranker import Reranker

if TYPE_CHECKING:
    import pandas
    import pyterrier


def transformer(reranker: Reranker, text: str = "text", windows: Windows | None = None) -> "pyterrier.Transformer":
    """A transformer from results (qid, query, docno, `text`) to the same with new `score` and `rank`.

    Of a document that is too long the first tokens count, or the best of its `windows`. The transformer raises InputError for
    results that lack a column. Raises InputError without PyTerrier.

    >>> from harp_jax.ranking.adapters.pyterrier import transformer
    >>> pipeline = bm25 >> transformer(Reranker.from_pretrained("ranker"))  # doctest: +SKIP
    """
    with needs("a PyTerrier transformer", "python-terrier", "pyterrier"):
        import pyterrier

    class HarpReranker(pyterrier.Transformer):
        """Scores every result's text for its query."""

        def transform(self, results: "pandas.DataFrame") -> "pandas.DataFrame":
            if missing := [name for name in ("qid", "query", "docno", text) if name not in results.columns]:
                raise InputError(
                    f"the results have no column {', '.join(missing)}; put pt.text.get_text(index, {text!r}) before the re-ranker"
                )
            pairs = list(zip(results["query"].astype(str), results[text].fillna("").astype(str)))
            scored = results.drop(columns=["score", "rank"], errors="ignore")
            return pyterrier.model.add_ranks(scored.assign(score=reranker.predict(pairs, windows).astype(float)))

        def __repr__(self) -> str:
            return f"HarpReranker(text={text!r})"

    return HarpReranker()
