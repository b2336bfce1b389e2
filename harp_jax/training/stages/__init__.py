"""What is specific to one kind of training: objective, data, initial parameters, number of steps.

In: a config. Out: a `Stage`, which `train` runs without knowing its kind.
Imports: corpus, text, model, input, objectives, checkpoints, ranking (for selection on held-out queries).
Files: stage (the `Stage` record); pretrain, retriever, finetune, coarse_tune (one stage each).
"""
