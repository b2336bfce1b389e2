"""Reports: what some runs show, in words, tables and curves, as one HTML page and as Markdown.

In: judgments, runs, metrics of trainings, manifests of generation jobs, the records of a plan.
Out: a `Report` (plain data), its HTML page and its Markdown; sentences for the terminal.
Imports: ground files, corpus, evaluation, input (manifests), checkpoints (metrics).
Files: `content` (the parts of a report), `verdict` (a table in words), `curves` (metrics as panels), `changes` (wins and losses),
`training_data` (Table 1 and a worked sentence), `provenance` (which steps of a plan wrote the files, and their cost), `advice`
(what to do next), `build` (all of it from runs), `render` (the templates in templates/).
"""
