"""Neural rankers: knrm, conv_knrm, drmm, duet, as in --config=baselines/neural:drmm.

harp train --config=configs/baselines/neural.py:knrm --workdir=runs/knrm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec [--config.vectors=vectors.txt]
harp rerank --model=runs/knrm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=knrm.trec

knrm: 11 Gaussian kernels over trained word vectors. Pairwise hinge, negatives from BM25's candidates. Without pre-trained vectors,
at first only exact matches carry information: train vectors on the collection (`harp words --vectors`), or use GloVe and a
vocabulary without stemming.
conv_knrm: KNRM's kernels over 1- to 3-grams with 128 filters, for every pair of query and document n-gram lengths.
drmm: log-count histograms of 30 bins (one for exact matches), a 30-5-1 network, the IDF gate. Word vectors are required, and not
learned here.
duet: as in the paper, local exact matches and distributed character n-graphs, each with its own dense layers; no word vectors. The
paper trains on 200 thousand queries of 10 words and documents of 1,000, with 300 filters and windows of 100 (81 million weights in
one layer); here the layers have 64. Its loss is the softmax over a relevant document and four others ("lce").

Hardware: 2 CPU cores. Time: a minute or two on a thousand judgments; conv_knrm ten times that. Figures: docs/lab/neural.md.
"""

from harp_jax.config import neural_ir, with_preset

MODELS = {
    "knrm": {},
    "conv_knrm": {"epochs": 5.0},
    "drmm": {"learning_rate": 1e-2},  # 200 parameters
    "duet": {"model.query_length": 12, "row_length": 200, "rank_loss": "lce", "epochs": 5.0},
}


def get_config(model: str = "knrm"):
    return with_preset(neural_ir(), model, {name: {"model.name": name} | own for name, own in MODELS.items()})
