"""Experiments: many commands as one, run once for everything they read, and resumed after a kill.

In: a plan (a list of `Command`), from a plan file with options or from the builders below.
Out: a directory with the output of every step, each named after a hash of what it reads; tables.
Imports: every room above, for what plans compare.
Files: `plan` (commands, steps and the hashes of what they read; plan files with options), `execution` (runs them; their
cost), `steps` (building blocks of plans), `curve` (a picture of few-shot results), `verdict` (a first
stage, or its sum with a ranker), `site_plan` and `site` (`harp site`: its plan, and the run); `plans/` (the shipped plans).
"""
