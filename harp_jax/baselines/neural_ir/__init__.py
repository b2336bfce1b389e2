"""Neural rankers from before BERT on word ids: DRMM, KNRM, Conv-KNRM, DUET.

In: word ids of queries and documents (`text.words`).
Out: scores, and the loss that trains them.
Imports: corpus, text, input (groups to train on), objectives (the ranking losses), checkpoints.
Files: `models` (KNRM, Conv-KNRM, DRMM, DUET; the module of a shape), `groups` (batches; checks that the texts fit
the vocabulary), `ranker` (the loss, the files).
"""
