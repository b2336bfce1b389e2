"""KNRM: 11 Gaussian kernels over word vectors that are learned. Pairwise hinge, negatives from BM25's candidates.

python -m harp_jax.main --config=configs/baselines/knrm.py --workdir=runs/knrm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec [--config.vectors=vectors.txt]
harp rerank --model=runs/knrm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=knrm.trec

Hardware: 2 CPU cores, a minute or two on a thousand judgments. Without vectors only exact matches mean anything at first: train
some on the collection (python -m harp_jax.text.word_vectors), or give GloVe's and a vocabulary without stemming.
"""

from harp_jax.defaults import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "knrm"
    return c
