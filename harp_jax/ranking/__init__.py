"""Queries to runs: first stage, re-ranking, fusion, and checkpoint selection by re-ranking held-out queries.

In: queries, documents, runs (files, or as `corpus` reads them), a trained model.
Out: runs, scores of texts.
Imports: corpus, text, model, evaluation, input (pair truncation), checkpoints.
Files: `options` (of a re-ranking); `lexical` (index, BM25, BM25F, query likelihood), `first_stage` (candidates, anchor texts,
priors, costs), `tune_first_stage` (grid search), `vectors` (nearest documents by an encoder, on disk or in memory); `scorers`
(the `Scorer` interface, batching, windows; cross-encoders, bi-encoders), `runtimes` (their models on OpenVINO and ONNX
Runtime), `rerank` (loads a ranker; scores pairs and runs, resumes after a kill), `adapters` (PyTerrier); `fuse`, `comparison`
(re-rankers against BM25, as a report), `selection` (while training).
"""
