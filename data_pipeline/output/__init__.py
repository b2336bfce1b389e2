"""The output directory: who may write to it, the shards, the manifest.

In: tables `records`, `predictions`, and the counts of what was dropped.
Out: TFRecord shards that TFDS reads, and manifest.json, whose presence means that the job is complete.
Imports: engine, links, weights, tasks; harp_jax.input.records.
Files:
  claim     an output directory belongs to one job
  shards    which record goes where, writing, TFDS's metadata
  worked    one sentence with its weights and pairs
  manifest  what a finished job wrote, from what, and what was dropped
  check     every shard against the manifest
  report    a finished job in numbers and examples
"""
