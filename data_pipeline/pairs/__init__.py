"""From sentences and passages to training records, bucket by bucket.

In: tables of sentences, passages and weights.
Out: tables `requests`, `adp_negatives`, `assembled`, `records` (serialized TFRecord examples), `predictions`.
Imports: engine, text, weights, tasks; harp_jax.input.records.
Files:
  requests         sentences to requests: what each task needs before passages are joined
  hard_negatives   BM25's pages for an anchor text, the negatives of ADP
  sharpness        how far the sampling of words is from uniform
  examples         requests with their passages, and running text, to records with statistics
  text_pairs       ICT and PROP, which need no links
  term_collection  p(w|C), the language model of the collection
  predictors       trivial predictors on held-out pairs
"""
