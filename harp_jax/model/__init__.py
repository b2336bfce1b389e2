"""The encoder and its heads in Linen, and the sharding of their arrays.

In: packed token ids [rows, T]. Out: hidden states, relevance scores, vocabulary losses; shardings of parameters and batches.
Imports: base.
Files: encoders/ (the architectures); sharding (the mesh); attention (plain products and kernels, chosen by config);
products (dense layers on CPUs); layers (the parts of encoders); cross_encoder (score and MLM heads, MLM loss, FLOPs).
"""
