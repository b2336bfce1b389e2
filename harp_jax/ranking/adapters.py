"""Rankers for other evaluation tools: a PyTerrier transformer (extra [pyterrier]) and an MTEB cross-encoder (extra [mteb])."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import Windows

if TYPE_CHECKING:
    import pandas
    import pyterrier
    from mteb.models.model_meta import ModelMeta

Batches = Iterable[Mapping[str, list[str]]]  # what MTEB's loaders yield: {"text": […]}, and more


class Predicts(Protocol):
    """A `Reranker`, or anything that scores pairs of texts."""

    def predict(self, pairs: Sequence[tuple[str, str]], windows: Windows | None = None) -> np.ndarray:
        """Scores [pairs] of (query, document)."""


def transformer(reranker: "Predicts", text: str = "text", windows: Windows | None = None) -> "pyterrier.Transformer":
    """A transformer that sets `score` and `rank` of results with the columns qid, query, docno and `text`.

    A document that is too long is scored by its first tokens, or by the best of its `windows`. Raises InputError if PyTerrier
    is not installed; the transformer raises it if a column is missing.

    >>> from harp_jax.ranking.adapters import transformer
    >>> pipeline = bm25 >> transformer(Reranker.from_pretrained("ranker"))  # doctest: +SKIP
    """
    with needs("a PyTerrier transformer", "python-terrier", "pyterrier"):
        import pyterrier

    class HarpReranker(pyterrier.Transformer):
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


class MtebCrossEncoder:
    """Follows MTEB's `CrossEncoderProtocol`: `mteb.evaluate(MtebCrossEncoder("ranker"), tasks)`; extra [mteb]."""

    def __init__(self, model_name: str, revision: str | None = None, device: str | None = None, **options: Any) -> None:
        """`model_name`: an export or training workdir; `options`: those of `load_scorer`. `device` is JAX's."""
        with needs("an MTEB cross-encoder", "mteb", "mteb"):
            from mteb.models.model_meta import ModelMeta
        self.scorer = load_scorer(model_name, **options)
        # MTEB names models OWNER/NAME.
        name = f"harp_jax/{os.path.basename(os.path.abspath(model_name))}"
        self._meta = ModelMeta.create_empty({"name": name, "revision": revision or "local", "loader": MtebCrossEncoder})

    @property
    def mteb_model_meta(self) -> "ModelMeta":
        """The name and revision under which MTEB files the results."""
        return self._meta

    def predict(
        self,
        inputs1: Batches,
        inputs2: Batches,
        *,
        task_metadata: object = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: object = None,
        **options: Any,
    ) -> np.ndarray:
        """Scores [pairs] float32: query i of `inputs1` with document i of `inputs2`."""
        queries, documents = ([text for batch in side for text in batch["text"]] for side in (inputs1, inputs2))
        return predict(self.scorer, list(zip(queries, documents, strict=True)))
