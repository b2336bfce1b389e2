"""DRMM: log-count histograms of 30 bins (one for exact matches), a 30-5-1 network, the IDF gate.

harp train --config=configs/baselines/drmm.py --workdir=runs/drmm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec --config.vectors=vectors.txt
harp rerank --model=runs/drmm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=drmm.trec

Hardware: 2 CPU cores. Time: a minute or two on a thousand judgments. Figures: `harp plan neural_ir`. Word vectors are
inputs, not learned here: train them on the collection (`harp words --vectors`).
"""

from harp_jax.config import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "drmm"
    c.learning_rate = 1e-2  # 200 parameters
    return c
