"""Masks a batch and computes its loss: pure functions with one interface for all stages.

In: parameters, a packed batch (`input/packing.fill`), keys. Out: a scalar loss and metric sums.
Imports: model, base.
Files: objective (the interface, and its metrics); masking; losses (the forward pass, losses of pairs and groups); then one file
per stage: pretrain, finetune, coarse_tune.

Where the equations of HARP are implemented:

    Eq. 1             attention from an anchor     data_pipeline/weights/attention.Encoder.rows (Encoder.module)
    Eq. 2             weight of a word             data_pipeline/tasks/sampling.Sampler.distribution
    Eq. 3             p of a word                  data_pipeline/tasks/sampling.probabilities
    Eq. 4             number of words              data_pipeline/tasks/sampling.Sampler.length
    Eq. 5             words of the page, RQP's S2  data_pipeline/tasks/rqp.sides
    Eq. 6             loss of RQP                  losses.hinge; its pair: data_pipeline/tasks/rqp.sides
    Eq. 7, 8          score of a pair              losses.forward (model/cross_encoder.Ranker.scores and .encode)
    Eq. 9             loss of QDM                  losses.hinge; its pair: data_pipeline/tasks/qdm.sides
    Eq. 10, 11        importance of an anchor      data_pipeline/tasks/rdp.importance, sampled in rdp.choose
    Eq. 12            loss of RDP                  losses.hinge; its pair: data_pipeline/tasks/rdp.sides
    Eq. 13            words of the page, ACM's S1  data_pipeline/tasks/acm.sides
    Eq. 14            loss of ACM                  losses.hinge; its pair: data_pipeline/tasks/acm.sides
    Eq. 15            masked language modelling    masking.mask_tokens, losses.masked_language_model
    Eq. 16            sum of the losses            pretrain.Pretrain.loss
    Eq. 17            score when fine-tuning       losses.forward, the same function as Eq. 7 and 8
    Eq. 18            ranking loss                 losses.relevance, averaged in losses.ranking_loss
"""
