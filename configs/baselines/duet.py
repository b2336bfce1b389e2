"""DUET as in the paper: local exact matches and distributed character n-graphs, each with its own dense layers.

harp train --config=configs/baselines/duet.py --workdir=runs/duet --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec
harp rerank --model=runs/duet --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=duet.trec

Hardware: 2 CPU cores. Time: some minutes on a thousand judgments. Figures: `harp plan neural_ir`. The paper trains on
200 thousand queries of 10 words and documents of 1,000, with 300 filters and windows of 100 (81 million weights in one layer);
here the layers have 64. Its loss is the softmax over a relevant document and four others ("lce").
"""

from harp_jax.config import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "duet"
    c.model.query_length = 12
    c.row_length = 200
    c.rank_loss = "lce"
    c.epochs = 5.0
    return c
