"""Fine-tunes a re-ranker on judged queries as the paper does (section 4.3.3): batch 128, 512 tokens, 2 epochs, 1e-5.

python -m harp_jax.main --config=configs/finetune.py --workdir=runs/ranker --config.init=runs/harp \
    --config.docs=docs.tsv --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec

Hardware: any; `init` is a pre-training workdir or a Hugging Face BERT directory. The candidates are a TREC run (BM25's, or a
stronger first stage's) from which the negatives of each positive are drawn, 1:7.
"""

from harp_jax.defaults import finetune


def get_config():
    return finetune()
