"""Experiments: many commands as one, run once for everything they read, and resumed after a kill.

In: a plan (a list of `Command`), from a plan file with options or from the builders below.
Out: a directory with the output of every step, each named after a hash of what it reads; tables.
Imports: every room above, for what plans compare.
Files: `plan` (commands, steps and the hashes of what they read), `execution` (runs them here, or writes them for Snakemake; their
cost), `plan_file` (Python files with options); `steps` (building blocks of plans), `cross_validation` (folds, few training
queries), `query_sets` (folds and subsets of queries), `curve` (a picture of few-shot results), `site` (what `harp site` does
around its plan); `plans/` (the shipped plans).
"""
