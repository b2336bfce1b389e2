"""HARP's fine-tuning on MS MARCO documents (section 4.3.3): configs/finetune.py on the files as they are distributed.

harp train --config=configs/finetune_msmarco_doc.py --workdir=runs/msmarco --config.init=runs/harp

Data: the files of MS MARCO's document ranking task in the current folder, compressed or not. The negatives of each training
positive are drawn 1:7 from its top 100 and are never judged relevant; positives that the top 100 lacks are left out, since
re-ranking never sees them (`missed_positives`). With all of the 367,013 positives, two epochs are 5.87 M pairs, 45,900 steps of
128. The paper keeps the last parameters; --config.select="RR@100" --config.eval_every=5000 keeps the best on 500 held-out training
queries. The dev queries are never used.

Hardware: BERT-base on 8 cores of TPU v3, or a large GPU. Time: about 2.2 hours on the v3-8, estimated from 1.6e18 FLOPs at 40 %
utilisation. A process tokenizes and packs 340 documents of 1,100 words a second, read from disk (one core, 29 November 2026); an
H100 needs about 1,200: --config.workers=4. Figure: not run yet; the paper reports MRR@100 .4472 on dev over ANCE's top 100. Plain
BERT reaches .418 to .445 in other work, so compare with the control (another --config.init, nothing else changed).
`harp plan msmarco` does both.
"""

from harp_jax.configs import finetune


def get_config():
    c = finetune.get_config()
    c.docs = "msmarco-docs.tsv"
    c.queries = "msmarco-doctrain-queries.tsv"
    c.qrels = "msmarco-doctrain-qrels.tsv"
    c.candidates = "msmarco-doctrain-top100"
    c.dtype = "bfloat16"  # with the attention kernels of TPUs and GPUs; parameters and Adam stay float32
    c.log_every = 100
    return c
