"""DUET, the paper's version: local exact matches and distributed character n-graphs, each with its own dense layers.

python -m harp_jax.main --config=configs/baselines/duet.py --workdir=runs/duet --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec
harp rerank --model=runs/duet --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=duet.trec

Hardware: 2 CPU cores, some minutes on a thousand judgments. The paper trains on 200 thousand queries with 10 and 1,000 words, 300
filters and windows of 100 (81 million weights in one layer); fewer judgments want the smaller layers below. Its loss is the
softmax over a relevant document and four others ("lce").
"""

from harp_jax.defaults import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "duet"
    c.model.query_length = 12
    c.model.graphs = 2000
    c.model.filters = 64
    c.model.hidden = 64
    c.model.pool = 100
    c.model.dropout = 0.2
    c.row_length = 200
    c.rank_loss = "lce"
    c.epochs = 5.0
    return c
