"""Conv-KNRM: KNRM's kernels over 1- to 3-grams with 128 filters, for every pair of query and document n-gram lengths.

harp train --config=configs/baselines/conv_knrm.py --workdir=runs/conv_knrm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec [--config.vectors=vectors.txt]
harp rerank --model=runs/conv_knrm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=conv_knrm.trec

Hardware: 2 CPU cores. Time: about ten times KNRM's. Figures: harp_jax/experiments/plans/neural_ir.py.
"""

from harp_jax.config import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "conv_knrm"
    c.epochs = 5.0
    return c
