"""Experiments: many commands as one, run once for everything they read, and resumed after a kill.

In: a plan (a list of `Command`), from a plan file with options or from the builders below.
Out: a directory with the output of every step, each named after a hash of what it reads; tables.
Imports: ground files, corpus, evaluation, training (its metrics log).
Files: `contents` (digests of files and folders), `plan` (commands, steps and their hashes), `plan_cost`, `execution` (runs them
here), `snakefile` (elsewhere), `plan_file` (Python files with options); `ranking_steps` (the steps that plans share),
`cross_validation` (the one builder for folds), `few_shot` (few training queries), `pretraining_steps` (a corpus and its
systems), `benchmark` (what systems are compared on); `query_sets` (folds, nested draws of training queries), `curve` (a
picture of few-shot results); `plans/` (the shipped plans), `site/` (the plan behind `harp site`).
"""
