"""A readable report of runs: verdict, table, advice, curves, wins and losses, training data, cost.

In: judgments, runs, and their background from options or a plan's records.
Out: a self-contained HTML page, and Markdown.
Imports: corpus, input (the manifest), checkpoints (metrics), evaluation.
Files: `build` (the report as data), `findings` (verdict and advice in words), `curves` (panels of training curves), `provenance`
(commands and costs from a plan's records), `render` (HTML with `templates/`, Markdown).
"""
