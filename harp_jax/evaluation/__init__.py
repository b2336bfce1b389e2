"""Evaluates runs against judgments: measures, significance tests and tables.

In: judgments and runs as `corpus.trec` reads them, measure names, a baseline.
Out: a `Table` with means, values per query and comparisons, printed as text or JSON.
Imports: corpus; `report` also checkpoints.
Files: `measures` (values per query), `significance` (paired tests, Holm, bootstrap intervals), `results` (the result and its
formats), `evaluate` (everything in one call; chance and blank queries), `report` (verdict, curves, wins and losses as data, then
HTML with `templates/`; run files to table or page).
"""
