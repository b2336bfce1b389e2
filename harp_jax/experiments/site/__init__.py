"""A site of one's own, end to end: from pages with links to a re-ranker that is tested without labels.

In: pages; optionally an encoder to start from, and labelled queries.
Out: a directory with everything the plan `harp_jax/experiments/plans/site.py` makes, and links with fixed names to its results.
Imports: corpus, evaluation, input, ranking, experiments. Pages are read by commands of data_pipeline, by name.
Files: `budget` (is there enough to learn from, and how many steps fit), `verdict` (first stage, ranker or their sum), `run` (the
plan in two parts, and what is handed over); `collection` (`Site`: documents, links and BM25 of a site as Python objects).
"""
