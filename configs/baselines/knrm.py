"""KNRM: 11 Gaussian kernels over trained word vectors. Pairwise hinge, negatives from BM25's candidates.

harp train --config=configs/baselines/knrm.py --workdir=runs/knrm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec [--config.vectors=vectors.txt]
harp rerank --model=runs/knrm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=knrm.trec

Hardware: 2 CPU cores. Time: a minute or two on a thousand judgments. Figures: harp_jax/experiments/plans/neural_ir.py. Without
pre-trained vectors, at first only exact matches carry information: train vectors on the collection (`harp words --vectors`), or use
GloVe and a vocabulary without stemming.
"""

from harp_jax.config import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "knrm"
    return c
