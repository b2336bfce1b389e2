"""HARP and its controls with the same budget: configs/tpu_v3.py with a fixed number of real tokens per batch.

The paper's tables (`harp plan table2`) train configs/tpu_v3.py:paper instead, whose batches are 128 pairs, whatever their lengths.

harp train --config=configs/baselines/harp.py --workdir=runs/harp --config.init=bert-base-uncased/
harp generate --config=configs/data/enwiki.py --config.tasks="('ict',)" --output=enwiki_ict
harp train --config=configs/baselines/harp.py:ict --workdir=runs/ict --config.init=bert-base-uncased/

mlm: BERT pre-trained further with MLM only, on HARP's pairs with a pair weight of 0. To train on running text of all documents
instead: --config.tasks="('mlm',)" with data of the generation job's task "mlm".
ict: Transformer-ICT, which predicts the passage that a sentence was taken from.
prop: PROP, which predicts the likelier of two word sets of a page; B-PROP with --config.prop_distribution=contrastive.
wlp: Transformer-WLP, which distinguishes a page that links to the page of a sentence from one that does not.
recommended: HARP as we recommend it for small encoders and short trainings: ADP, no MLM, no dropout. The pairs are those of the
generation preset of the same name. Figures: docs/lab/links.md. `harp plan recipe` trains it in minutes on a CPU.
taught: the same, with the order of a sentence encoder's vectors as a teacher: pairs from `harp teach`. Figures:
docs/lab/teacher.md.

ict and prop can use the same documents as HARP (--config.text_pages=linked in the generation job), all documents, or any plain
collection as JSONL; wlp needs links.

Hardware and time: see configs/tpu_v3.py. Figures: not run yet, except recommended and taught. 27,500 real tokens are about 128
pairs of HARP (two sequences of about 107 tokens each), 55 rows of 512. Batches end at the same number of real tokens, regardless of
the lengths of a task's pairs and how well they pack; the number of rows is derived. Number of updates, schedule and initial
parameters are the same. Only data and task weights differ; try the same learning rates for all.
"""

from harp_jax.configs import tpu_v3

from harp_jax.config import PRESETS, with_preset

CONTROLS = {
    "mlm": {"pair_weight": 0.0},
    **{task: {"data": (f"enwiki_{task}",), "tasks": (task,)} for task in ("ict", "wlp", "prop")},
    **{preset: PRESETS[preset] for preset in ("recommended", "taught")},
}


def get_config(control: str = ""):
    c = tpu_v3.get_config()
    c.batch_tokens = 27_500
    return with_preset(c, control, CONTROLS)
