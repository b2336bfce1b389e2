"""Lexical ranking of a whole collection: BM25, BM25F with anchor texts, query likelihood.

In: documents, queries, and anchor texts of the documents if there are any; judged queries to tune on.
Out: runs, tuned parameters.
Imports: corpus, text, evaluation.
Files: `anchor_texts` (what other pages call a document), `models` (the index and the three models), `first_stage` (candidates, from
file to file), `tune_first_stage`.
"""
