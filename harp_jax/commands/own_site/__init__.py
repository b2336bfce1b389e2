"""`harp site` and the commands of its plan.

In: options. Out: what the library makes, its messages, and an exit status.
Imports: corpus, training, ranking, site.
Files: `site` (everything), `rate` (seconds of a training step), `verdict` (first stage, ranker or their sum), `labels` (as queries
and judgments). `harp survey` reads pages and belongs to data_pipeline.
"""
