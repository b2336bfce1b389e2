"""The computation of one step: from a masked batch to a loss, as pure functions with one interface for every stage.

In: parameters, a packed batch (`input/packing.fill`), keys. Out: a scalar loss and metric sums.
Imports: model (and the ground files).
Files: objective (the interface: mask, counts, loss); masking; scores (the shared forward pass); losses (per pair or item);
ranking_loss (over groups); metrics (sums to means); then one file per stage: pretrain, finetune, coarse_tune.

Where the equations of HARP are implemented:

    Eq. 1, 5, 10, 13   attention as term weights    data_pipeline/weights (reads model/bert.Bert.attention_rows)
    Eq. 2, 3, 4        sampling words               data_pipeline/tasks/sampling
    Eq. 6 and 5        RQP                          data_pipeline/tasks/rqp; loss: losses.hinge
    Eq. 9              QDM                          data_pipeline/tasks/qdm; loss: losses.hinge
    Eq. 10, 11, 12     RDP                          data_pipeline/tasks/rdp; loss: losses.hinge
    Eq. 13, 14         ACM                          data_pipeline/tasks/acm; loss: losses.hinge
    Eq. 7, 8           score of a pair              scores.forward (model/cross_encoder.Ranker.encode and .scores)
    Eq. 15             masked language modelling    masking.mask_tokens, scores.masked_language_model
    Eq. 16             the sum of the losses        pretrain.Pretrain.loss
    Eq. 17             score when fine-tuning       scores.forward, the same function as Eq. 7 and 8
    Eq. 18             ranking loss                 losses.relevance, averaged in ranking_loss.ranking_loss
"""
