"""The pre-training tasks, and the maps that make training records with them, bucket by bucket.

In: tables of sentences with anchors, passages and weights; running text.
Out: tables `requests`, `draws`, `mined`, `assembled`, `records` (serialized TFRecord examples), `predictions`.
Imports: engine, text, links, weights; harp_jax.input.records, harp_jax.ranking.lexical.
Files:
  sampling     words drawn by their weights (HARP Eq. 2 to 5)
  task         the record `Task`, and the data that tasks exchange: anchors, sentences, requests, passages, sides
  rqp          Representative Query Prediction (HARP 3.2.1)
  qdm          Query Disambiguation Modeling (HARP 3.2.2)
  rdp          Representative Document Prediction (HARP 3.2.3)
  acm          Anchor Co-occurrence Modeling (HARP 3.2.4)
  hard_negatives   pages that BM25 returns for the words of a request
  adp          Anchor Destination Prediction: hard negatives, beyond the paper
  title        a control for ADP without links: a title and its page
  lead         a control for ADP without links: words of a sentence, and the page without it
  ict          Inverse Cloze Task, a control
  wlp          Wiki Link Prediction, a control
  prop         PROP and B-PROP, controls, with the language model of the collection
  mlm          pieces of running text for masked language modelling (HARP Eq. 15)
  table        the tasks by name
  maps         sentences and links to requests; requests with their passages, and pages, to records with statistics
  diagnostics  trivial predictors on held-out pairs; how far word sampling is from uniform
"""
