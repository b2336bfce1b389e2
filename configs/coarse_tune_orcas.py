"""Coarse-tunes bert-tiny on ORCAS (Keyaki and Keyaki, section 3.1): pair prediction and MLM, 4 epochs on 8 % of the clicks.

python -m harp_jax.main --config=configs/coarse_tune_orcas.py --workdir=runs/coarse --config.init=bert-tiny/

Data: orcas.tsv and msmarco-docs.tsv in the current folder (.gz is fine). Then fine-tune from it, with the same marks:

python -m harp_jax.main --config=configs/finetune.py --workdir=runs/tuned --config.init=runs/coarse \
    --config.query_mark="[unused0]" --config.document_mark="[unused1]" --config.init_head=pretrained …

The control, MLM on the clicked documents alone for 40 epochs:  --config.documents_only=True --config.epochs=40

Hardware: any GPU; the paper took 20 hours on an RTX 3060 without packing. Not yet run here: ORCAS is not at hand. The paper
reports MRR .597 on Robust04 after fine-tuning, against .548 without coarse-tuning and .549 with the control.
configs/experiments/coarse_tuning.py runs all six systems.
"""

from harp_jax.defaults import coarse_tune


def get_config():
    c = coarse_tune()
    c.clicks = "orcas.tsv"
    c.docs = "msmarco-docs.tsv"
    c.fields = ("title", "url", "body")
    c.init = "bert-tiny"  # prajjwal1/bert-tiny: 2 layers, hidden size 128; a local Hugging Face directory
    c.query_mark = "[unused0]"  # [Q]
    c.document_mark = "[unused1]"  # [D]
    c.sample = 0.08  # tuned by the paper on the queries that it reports: tune inside folds
    c.replaced = 0.5
    c.mlm_rate = 0.15
    c.row_length = 256
    c.batch_pairs = 80
    c.epochs = 4.0
    c.learning_rate = 1e-3
    c.checkpoint_every = 5000
    c.log_every = 100
    return c
