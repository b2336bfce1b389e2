"""What the package writes: pairs as shards with a manifest, and what else can be made of pages or of pairs.

In: a config; tables; finished pairs.
Out: TFRecord shards that TFDS reads, and manifest.json, whose presence means that the job is complete; collections; vocabularies.
Imports: config, engine, links, sources, tasks, weights; the records of harp_jax.input, the rankers of harp_jax.ranking.
Files:
  claim       which job an output directory belongs to; the inputs of a config
  manifest    shards, TFDS's metadata, manifest.json
  inspection  shards compared with their manifest; statistics and examples
  teacher     a ranker's scores added to pairs
  triplets    the texts of pairs as Parquet
  collection  pages as documents and anchor texts
  survey      the links of a site: documents, anchor texts, anchors of held-out pages as test queries
  vocabulary  a vocabulary trained on pages
"""
