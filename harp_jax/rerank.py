"""The import that the model cards of earlier exports print: `from harp_jax.rerank import Reranker`. Now `harp_jax.Reranker`."""

from harp_jax.ranking.reranker import Reranker

__all__ = ["Reranker"]
