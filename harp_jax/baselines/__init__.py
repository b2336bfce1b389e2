"""The papers' other systems, besides the cross-encoder.

In: judged queries, or linked documents. Out: rankers, runs.
Imports: corpus, text, input, objectives, checkpoints; `linklearn/` also ranking and training.
Files: `neural_ir/` (DRMM, DUET, KNRM, Conv-KNRM), `linklearn/` (LinkLearn, Okapi, Ranking SVM).
"""
