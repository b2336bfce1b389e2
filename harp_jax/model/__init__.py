"""The encoder and its heads in Linen, and the sharding of their arrays.

In: packed token ids [rows, T]. Out: hidden states, relevance scores, vocabulary losses; shardings of parameters and batches.
Imports: base.
Files: encoders/ (one file an architecture); sharding (the mesh); attention (plain products and kernels, chosen by config); products
(of bfloat16 factors on CPUs); layers (what encoders are built of); cross_encoder (score and MLM heads, MLM loss, FLOPs).
"""
