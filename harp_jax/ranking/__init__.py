"""Queries to runs: first stage, re-ranking, fusion, and the selection of parameters by re-ranking held-out queries.

In: queries, documents, runs (files, or as `corpus` reads them), a trained model.
Out: runs, scores of texts.
Imports: corpus, text, model, evaluation, input (how pairs are truncated), checkpoints, neural_ir.
Files: `lexical/` (BM25 and others: the first stage); `adapters` (PyTerrier, MTEB); `scoring` (what a ranker offers, its batches,
windows of long documents), `encoder_texts` (what the scorers of an encoder share), `cross_encoder_scorer`, `runtimes` and
`runtime_scorer` (the same in OpenVINO and ONNX Runtime), `neural_scorer`, `bi_encoder_scorer`, `rerank` (a ranker loaded; pairs, a
run, resumed after a kill); `fuse`, `priors`, `selection` (while training), `query_probe`.
"""
