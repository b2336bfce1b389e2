"""Masks a batch and computes its loss: pure functions with one interface for all stages.

In: parameters, a packed batch (`input/packing.fill`), keys. Out: a scalar loss and metric sums.
Imports: model, base.
Files: objective (the interface, and its metrics); masking; losses (the forward pass, losses of pairs and groups); pretrain (and
coarse-tuning); finetune; contrastive (vectors).
docs/reproduce.md lists where each equation of HARP is implemented.
"""
