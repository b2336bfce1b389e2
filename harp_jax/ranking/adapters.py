"""The ranker as a PyTerrier transformer (extra [pyterrier])."""

from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError, needs
from harp_jax.ranking.scorers import Windows

if TYPE_CHECKING:
    import pandas
    import pyterrier


def transformer(reranker: Any, text: str = "text", windows: Windows | None = None) -> "pyterrier.Transformer":
    """A transformer of a `Reranker` that sets `score` and `rank` of results with the columns qid, query, docno and `text`.

    A document that is too long is scored by its first tokens, or by the best of its `windows`. Raises InputError if PyTerrier
    is not installed; the transformer raises it if a column is missing.

    >>> from harp_jax.ranking.adapters import transformer
    >>> pipeline = bm25 >> transformer(Reranker.from_pretrained("ranker"))  # doctest: +SKIP
    """
    with needs("a PyTerrier transformer", "pyterrier", "pyterrier"):
        import pyterrier

    class HarpReranker(pyterrier.Transformer):
        def transform(self, results: "pandas.DataFrame") -> "pandas.DataFrame":
            if missing := [name for name in ("qid", "query", "docno", text) if name not in results.columns]:
                advice = f"put pt.text.get_text(index, {text!r}) before the re-ranker"
                raise InputError(f"the results have no column {', '.join(missing)}; {advice}")
            pairs = list(zip(results["query"].astype(str), results[text].fillna("").astype(str)))
            scored = results.drop(columns=["score", "rank"], errors="ignore")
            return pyterrier.model.add_ranks(scored.assign(score=reranker.predict(pairs, windows).astype(float)))

        def __repr__(self) -> str:
            return f"HarpReranker(text={text!r})"

    return HarpReranker()
