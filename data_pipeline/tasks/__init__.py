"""The pre-training tasks, and the maps that make training records with them, bucket by bucket.

In: tables of sentences with anchors, passages and weights; running text.
Out: tables `requests`, `draws`, `mined`, `assembled`, `records` (serialized TFRecord examples), `predictions`.
Imports: engine, text, links, weights; harp_jax.input.records, harp_jax.ranking.lexical.
Files:
  sampling     words drawn by their weights (HARP Eq. 2 to 5)
  task         the record `Task`, and the data that tasks exchange: anchors, sentences, requests, passages, sides
  hard_negatives   pages that BM25 returns for the words of a request
  table        the tasks by name; it describes their files
  maps         sentences and links to requests; requests with their passages, and pages, to records with statistics
  diagnostics  trivial predictors on held-out pairs
"""
