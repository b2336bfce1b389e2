"""Term weights: wordpieces of sentences and passages, and one weight for each of their words.

In: tables `documents`, `ranked`, `candidates`.
Out: tables `sentences`, `passages`, and the term weights: an artefact of its own, named by its sha256.
Imports: engine, text; of harp_jax the encoder and its checkpoints.
Files:
  wordpieces       sentences, passages and running text as wordpieces
  word_weights     one weight for each word: sums over wordpieces, the stored form
  without_encoder  "uniform" and "idf" weights
  attention        weights from an encoder's attention, in JAX
  artefact         the finished weights as a directory with a sha256: made once, verified at each use
"""
