"""Queries to runs: first stage, re-ranking, fusion, and the selection of parameters by re-ranking held-out queries.

In: queries, documents, runs (files, or as `corpus` reads them), a trained model.
Out: runs, scores of texts.
Imports: corpus, text, model, evaluation, input (how pairs are truncated), checkpoints, neural_ir.
Files: `lexical/` (BM25 and others: the first stage); `scoring` (what a ranker offers, and its batches),
`cross_encoder_scorer`, `neural_scorer`, `bi_encoder_scorer`, `maxp` (windows of long documents), `reranker` (a model that
ranks texts), `rerank` (a run), `parts` (resuming it); `fuse`, `priors`, `selection` (while training), `query_probe`.
"""
