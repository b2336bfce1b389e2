"""DRMM: log-count histograms of 30 bins (exact matches have their own), a 30-5-1 network, the IDF gate.

python -m harp_jax.main --config=configs/baselines/drmm.py --workdir=runs/drmm --config.docs=docs.tsv \
    --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec --config.vectors=vectors.txt
harp rerank --model=runs/drmm --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=drmm.trec

Hardware: 2 CPU cores, a minute or two on a thousand judgments. Word vectors are given, not learned: train some on the collection
(python -m harp_jax.text.word_vectors). --config.model.gate=vector weighs query words by their vectors instead of their IDF.
"""

from harp_jax.defaults import neural_ir


def get_config():
    c = neural_ir()
    c.model.name = "drmm"
    c.model.bins = 30
    c.model.gate = "idf"
    c.model.train_vectors = False
    c.learning_rate = 1e-2  # 200 parameters
    return c
