"""SJTF (Zhu et al., NAACL Findings 2022): fine-tuning with masked query prediction in the same step.

harp train --config=baselines/sjtf --workdir=runs/sjtf --config.init=bert-base-uncased --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec

One token of each query is masked, and a linear decoder predicts it, given the relevant document. The paper's abstract gives no
weight for the sum of the two losses; 1 is ours. In the plan `tables`: --set transformers=none,sjtf.

Hardware: any. Time: 1 / (1 + negatives) more than fine-tuning, and the decoder. Figure: three layers of MiniLM, 1,975 labelled
questions, WikiPassageQA's fold 0, three seeds: RR@10 .457, fine-tuning alone .530, a difference of -.073 [-.123, -.026].
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.dtype, c.mqp_weight = "auto", 1.0
    return c
