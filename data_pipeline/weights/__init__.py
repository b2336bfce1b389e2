"""Term weights: wordpieces of sentences and passages, and one weight for each of their words.

In: tables `documents`, `ranked`, `candidates`.
Out: tables `sentences`, `passages`, and the term weights: an artefact of its own, named by its sha256.
Imports: engine, text; of harp_jax the encoder and its checkpoints.
Files:
  tokenised   sentences, passages and running text as wordpieces
  artefact    term weights as files; weights that need no encoder
  attention   weights from an encoder's attention, in JAX
"""
