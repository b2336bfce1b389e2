"""Fine-tune a re-ranker on judged queries as in the paper (section 4.3.3): batch 128, 512 tokens, 2 epochs, 1e-5.

harp train --config=configs/finetune.py --workdir=runs/ranker --config.init=runs/harp \
    --config.docs=docs.tsv --config.queries=queries.tsv --config.qrels=qrels.txt --config.candidates=train.trec

`init` is a pre-training workdir or a Hugging Face directory. The negatives of each positive are drawn from the
candidates, a TREC run of BM25 or of a stronger first stage, 1:7; relevant documents that it missed are not positives
(`missed_positives`), and the last parameters are kept (`select`). Hardware: any. Time and figure depend on the collection.
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.dtype = "auto"  # bfloat16 where the hardware multiplies it; parameters and Adam stay float32
    return c
