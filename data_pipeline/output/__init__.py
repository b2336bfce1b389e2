"""The output directory: who may write to it, the shards, the manifest.

In: tables `records`, `predictions`, and the counts of what was dropped.
Out: TFRecord shards that TFDS reads, and manifest.json, whose presence means that the job is complete.
Imports: engine, links, weights, tasks; harp_jax.input.records.
Files:
  claim     an output directory belongs to one job
  manifest  shards, TFDS's metadata, manifest.json
"""
