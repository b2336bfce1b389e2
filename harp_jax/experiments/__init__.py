"""Experiments: lists of commands, each run once per set of inputs, and resumed after a kill.

In: a plan (a list of `Command`), from a plan file with options or from the builders below.
Out: a directory with the output of every step, each named after a hash of what it reads; tables.
Imports: every room above, for what plans compare.
Files: `plan` (commands, steps and the hashes of their inputs; plan files with options), `execution` (runs steps, estimates
their cost), `steps` (building blocks of plans), `curve` (plots few-shot results), `verdict` (decides which scores to add up),
`site_plan` and `site` (`harp site`: its plan, and the run); `plans/` (the shipped plans).
"""
