"""Neural rankers from before BERT on word ids: DRMM, KNRM, Conv-KNRM, DUET.

In: judged queries, a vocabulary of words (`text.words`).
Out: a workdir with the parameters; scores.
Imports: corpus, text, input (negatives of judged queries), objectives (the ranking losses), ranking, training (optimizer, workdir).
Files: `models` (KNRM, Conv-KNRM, DRMM, DUET; the module of a shape), `train` (words to the trained parameters), `scorer` (files of
a trained ranker, re-ranking).
"""
