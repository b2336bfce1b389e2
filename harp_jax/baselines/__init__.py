"""What other papers train, each with a small trainer of its own. The core of the package imports none of it.

In: judged queries, linked documents, click logs. Out: rankers, runs.
Imports: corpus, text, input, objectives, checkpoints, ranking, training.
Files: `neural_ir/` (DRMM, DUET, KNRM, Conv-KNRM), `linklearn/` (LinkLearn, Okapi, Ranking SVM), `query_probe` (which queries a
coarse-tuned model expects for a document).
"""
