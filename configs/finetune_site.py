"""Fine-tune the re-ranker of `harp site` on a few labelled queries: localised cross-entropy, a few negatives, the head kept.

harp train --config=configs/finetune_site.py --workdir=runs/labels --config.init=runs/site --config.docs=docs.jsonl …

Used by `harp site --train=ranker --labels` and by `Reranker.fit`.
"""

from harp_jax.config import finetune


def get_config():
    c = finetune()
    c.model.dropout = 0.0
    c.init_head = "pretrained"  # a few dozen queries are too few to learn a head from
    c.fields = ("title", "body")
    c.rank_loss = "lce"
    c.negatives = 3
    c.missed_positives = True  # labels are few: also use those that BM25 misses
    c.row_length = 128  # as in configs/site.py
    c.lanes = 1
    c.batch_pairs = 16
    c.window = 128
    c.epochs = 6.0
    c.learning_rate = 2e-4  # after HARP, 50 questions of WikiPassageQA: .460 RR@10; 5e-5 .430, 5e-4 .436 (one draw)
    c.log_every = 5
    c.dtype = "auto"  # bfloat16 on CPUs with AMX or AMD's AVX512-BF16
    return c
