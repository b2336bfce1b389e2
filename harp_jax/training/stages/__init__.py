"""Everything that is specific to one kind of training: model family, objective, data, initial parameters, number of steps.

In: a config. Out: a `Stage`, which the training loop runs without knowing its kind.
Imports: corpus, text, model, input, objectives, checkpoints, baselines, ranking (for selection on held-out queries).
Files: stage (the `Stage` record, the families of models); pretrain, retriever, finetune, coarse_tune, neural_ir (one stage each).
"""
