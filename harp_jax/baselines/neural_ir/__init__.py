"""Neural rankers from before BERT on word ids: DRMM, KNRM, Conv-KNRM, DUET.

In: word ids of queries and documents (`text.words`).
Out: scores, and the loss that trains them.
Imports: corpus, text, input (groups to train on), objectives (the ranking losses), checkpoints.
Files: `shape` (config and word tables), `interaction` (word vectors and cosines), `drmm`, `knrm`, `conv_knrm`, `duet`, `build`
(the module of a shape), `known_words` (does the vocabulary fit the texts), `groups` (batches), `objective` (the loss),
`parameters` (on disk).
"""
