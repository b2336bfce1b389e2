"""Experiments: the demo, and the papers' tables and figures, each a function that calls the other rooms in order.

In: options (`harp plan NAME --set OPTION=VALUE`); pages, collections, encoders.
Out: a folder with the output of every step, made once (`base/made.py`), and tables.
Imports: every room above; inside functions also the generation job.
Files: `experiment` (finds an experiment, reads its options); `pretraining` (of the systems that a table compares); `benchmark` (a
judged collection to train and test on); `demo`; of HARP `tables`, `msmarco` (Tables 1 to 4) and `figure4`; `recipe` (what links
alone teach a ranker), `vectors` (and an encoder's vectors), `linklearn`, `coarse_tuning`.
"""
