"""The encoder and its heads in Linen, and the sharding of their arrays.

In: packed token ids [rows, T]. Out: hidden states, relevance scores, vocabulary losses; shardings of parameters and batches.
Imports: the ground files only.
Files: bert (the encoder); attention (chosen by config) and splash (its TPU kernel); dropout; matching (initial parameters of
small models); products (of bfloat16 factors on CPUs); cross_encoder (score and MLM heads); vocabulary_loss (cross-entropy
without keeping the logits); sharding (mesh and rules); tied_embeddings (one all-reduce for the word embeddings' two
gradients); flops (of a step).
"""
