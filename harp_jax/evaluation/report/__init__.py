"""A report of runs for people: the verdict first, then table, advice, curves, wins and losses, training data, cost.

In: judgments, runs, and what the options or the records of a plan say about them.
Out: a page that loads nothing from elsewhere, and Markdown.
Imports: corpus, input (the manifest), checkpoints (metrics), evaluation.
Files: `build` (what a report consists of, and how it is made), `findings` (verdict and advice in words), `curves` (panels and their
drawing), `provenance` (what a plan's records say), `render` (HTML by `templates/`, Markdown).
"""
