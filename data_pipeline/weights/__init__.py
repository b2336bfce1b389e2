"""Term weights: words and tokens of sentences and passages, and one weight for each word.

In: tables `documents`, `ranked`, `candidates`.
Out: tables `sentences`, `passages`, and the term weights: a separate artefact, identified by its sha256.
Imports: engine, text; the encoder and its checkpoints from harp_jax.
Files:
  tokenised     sentences, passages and running text as words and tokens; the stored form of weights
  word_counts   how many passages have a word, how often it occurs in all
  term_weights  weights from an encoder's attention, in JAX, or without one; a directory made once, verified at each use
"""
