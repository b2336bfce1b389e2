"""Train an encoder's vectors on links: pages are found by the text around the links to them.

harp train --config=configs/retriever.py --workdir=runs/vectors --config.init=MiniLM-L6-v2/ --config.data="('pairs',)"
harp export --workdir=runs/vectors --output=tuned
harp adapt pairs --encoder=tuned --output=vectors  # a linear map: half a minute, and about half of the gain
harp first-stage --model=vectors --encoder=vectors --docs=docs.tsv --queries=queries.tsv --output=vectors.trec

Its pairs are those of the generation preset "recommended" (`harp generate --config=data/linked_jsonl:recommended`).

Hardware: any; six layers of 384 took 11 minutes on two CPU cores with AMX, 13 on one. RR@10 of vectors alone among 123,000 pages,
before, after this config and after the map: .543, .625, .686 on WikiPassageQA, .772, .843, .848 on WikiQA (29 November 2026:
docs/lab/vectors.md).
On a TPU v3-8, batch_pairs=8192 with accumulate=64 and lanes=8 needs 938 MiB per core in bfloat16 (--dry_run, 29 November 2026).
"""

from harp_jax.config import retriever


def get_config():
    c = retriever()
    c.dtype = "auto"
    c.row_length = 128
    c.lanes = 2  # in so small a batch, two lanes fill the slots better than eight
    c.batch_pairs = 24
    c.window = 512
    c.steps = 200
    c.learning_rate = 3e-5
    c.temperature = 0.05
    c.kl_weight = 0.5
    c.log_every = 10
    c.checkpoint_every = 100
    c.eval_every = 50
    c.eval_batches = 8
    return c
