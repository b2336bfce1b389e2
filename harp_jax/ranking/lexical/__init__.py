"""Lexical ranking of a whole collection: BM25, BM25F with anchor texts, query likelihood.

In: documents, queries, optional anchor texts; judged queries for tuning.
Out: runs, tuned parameters.
Imports: corpus, text, evaluation.
Files: `anchor_texts` (reads anchor texts), `models` (the index and the three models), `first_stage` (writes runs of candidates),
`tune_first_stage` (grid search).
"""
