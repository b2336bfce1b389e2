"""Neural rankers from before BERT on word ids: DRMM, KNRM, Conv-KNRM, DUET.

In: judged queries, documents.
Out: a workdir with the parameters; scores.
Imports: corpus, text, input (negatives of judged queries), objectives (the ranking losses), ranking, training (optimizer, workdir).
Files: `words` (a vocabulary of whole words; trains and reads word2vec), `models` (KNRM, Conv-KNRM, DRMM, DUET; the module of a
shape), `train` (words to the trained parameters), `scorer` (files of a trained ranker, re-ranking).
"""
