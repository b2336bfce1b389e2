"""A `Reranker` as an object of other evaluation tools.

In: a reranker.
Out: a PyTerrier transformer, an MTEB cross-encoder.
Imports: ranking.
Files: `pyterrier` (for pipelines), `mteb` (for its re-ranking tasks).
"""
