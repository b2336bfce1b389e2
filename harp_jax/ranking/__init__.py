"""Queries to runs: first stage, re-ranking, fusion, and checkpoint selection by re-ranking held-out queries.

In: queries, documents, runs (files, or as `corpus` reads them), a trained model.
Out: runs, scores of texts.
Imports: corpus, text, model, evaluation, input (pair truncation), checkpoints, neural_ir.
Files: `lexical/` (the first stage: BM25 and others); `adapters` (PyTerrier, MTEB); `scoring` (the `Scorer` interface, batching,
windows of long documents), `encoder_texts` (tokenizing for encoder scorers), `cross_encoder_scorer`, `runtimes` and
`runtime_scorer` (cross-encoders in OpenVINO and ONNX Runtime), `neural_scorer`, `bi_encoder_scorer`, `rerank` (loads a ranker;
scores pairs and runs, resumes after a kill); `fuse`, `priors`, `selection` (while training), `query_probe`.
"""
