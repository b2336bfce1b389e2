"""One file per architecture: all that the rest of the code needs to train, shard, load and export it, and to count FLOPs.

In: config.json and tensors of Hugging Face; packed batches. Out: an `Encoder` record for each `model_type`.
Imports: base, the layers of model.
Files: encoder (the record, the shape, a leaf of the parameter tree); table (ENCODERS: by model_type, one file each).
To add an architecture, add a file like bert.py and its line in table.py.
"""
