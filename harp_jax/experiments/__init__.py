"""Experiments: the demo, and the papers' tables and figures, each a function that calls the other rooms in order.

In: options (`harp plan NAME --set OPTION=VALUE`); pages, collections, encoders.
Out: a folder with the output of every step, made once (`base/made.py`), and tables.
Imports: every room above; inside functions also the generation job.
Files: `experiment` (finds an experiment, reads its options), `calls` (training, configs), `pretraining` (a
corpus and the systems pre-trained on it), `benchmark` (a judged collection: training, ranking, tables), `curve` (plots few-shot
results); `demo`; of HARP `tables`, `msmarco` (Tables 1 to 4) and `figure4`; `recipe` (what links alone teach),
`linklearn`, `coarse_tuning`.
"""
