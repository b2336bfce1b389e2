"""From runs and judgments to numbers: measures, significance tests and tables.

In: judgments and runs as `corpus.trec` reads them (or qid → docid → score), measure names, a baseline.
Out: a `Table` with means, values per query and comparisons, printed as text, LaTeX or JSON.
Imports: corpus; `report/` also input and checkpoints.
Files: `measures` (names to values per query), `significance` (paired tests, Holm, bootstrap intervals), `floors`
(chance and blank queries), `tables` (the result and its formats), `evaluate` (all of it in one call);
`report/` (what runs show, as HTML and Markdown).
"""
