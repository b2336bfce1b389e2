"""The encoder and its heads in Linen, and the sharding of their arrays.

In: packed token ids [rows, T]. Out: hidden states, relevance scores, vocabulary losses; shardings of parameters and batches.
Imports: the ground files only.
Files: encoders/ (one file an architecture); layers (what they are built of); attention (chosen by config) and splash (its TPU
kernel); products (of bfloat16 factors on CPUs); cross_encoder (encoder, score and MLM heads, their sharding and FLOPs);
vocabulary_loss (cross-entropy without keeping the logits); sharding (the mesh); tied_embeddings (one all-reduce for the word
embeddings' two gradients).
"""
