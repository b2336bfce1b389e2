"""Architectures: all that the rest of the code needs to train, shard, load and export them, and to count FLOPs.

In: config.json and tensors of Hugging Face; packed batches. Out: a subclass of `EncoderConfig` for each `model_type`.
Imports: base, the layers of model.
Files: encoder (`EncoderConfig`, a leaf of the parameter tree); bert; modernbert; table (ENCODERS by model_type, and those with
BERT's layers). To add an architecture, add a file like bert.py and its line in table.py.
"""
