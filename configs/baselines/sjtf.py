"""SJTF (Zhu et al., NAACL Findings 2022): fine-tuning with masked query prediction in the same step.

harp train --config=baselines/sjtf --workdir=runs/sjtf --config.init=bert-base-uncased --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec

One token of each query is masked beside the relevant document, and a linear decoder predicts it. The paper's abstract gives no
weight for the sum of the two losses; 1 is ours. In the plan `tables`: --set transformers=none,sjtf.

Hardware: any. Time: 1 / (1 + negatives) more than fine-tuning, and the decoder. Figure: not run yet.
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.mqp_weight = 1.0
    return c
