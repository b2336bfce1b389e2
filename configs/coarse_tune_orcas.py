"""Coarse-tune bert-tiny on ORCAS (Keyaki and Keyaki, section 3.1): pair prediction and MLM, 4 epochs on 8 % of the clicks.

harp train --config=configs/coarse_tune_orcas.py --workdir=runs/coarse --config.init=bert-tiny/

Data: orcas.tsv and msmarco-docs.tsv in the current folder (.gz is fine). Then fine-tune from it, with the same marks:

harp train --config=configs/finetune.py --workdir=runs/tuned --config.init=runs/coarse \
    --config.marks="('[unused0]','[unused1]')" --config.init_head=pretrained --config.rank_loss=judged …

The control, MLM on the clicked documents only, for 40 epochs: --config.documents_only=True --config.epochs=40

Hardware: any GPU. Time: 20 hours in the paper, on an RTX 3060 without packing. Figure: not run yet, for lack of ORCAS; the paper
reports MRR .597 on Robust04 after fine-tuning, compared with .548 without coarse-tuning and .549 for the control.
harp_jax/experiments/coarse_tuning.py runs all six systems.
"""

from harp_jax.config import coarse_tune


def get_config():
    c = coarse_tune()
    c.clicks = "orcas.tsv"
    c.docs = "msmarco-docs.tsv"
    c.fields = ("title", "url", "body")
    c.init = "bert-tiny"  # prajjwal1/bert-tiny: 2 layers, hidden size 128; a local Hugging Face directory
    c.marks = ("[unused0]", "[unused1]")  # [Q] and [D]
    c.mask_always = True
    c.weight_decay = 0.01  # AdamW's in PyTorch; the paper names no other
    c.sample = 0.08  # the paper tuned it on the queries it reports; tune inside folds
    c.row_length = 256
    c.dtype = "bfloat16"  # parameters and Adam stay float32
    c.batch_pairs = 80
    c.epochs = 4.0
    c.learning_rate = 1e-3
    c.checkpoint_every = 5000
    c.log_every = 100
    return c
