"""HARP base as in the paper (section 4.3.2), on a TPU v3-8.

python -m harp_jax.main --config=configs/tpu_v3.py --workdir=runs/harp \
    --config.data="('enwiki',)" --config.init=bert-base-uncased/

Hardware: 8 cores of TPU v3, 16 GiB each. BERT-base, 128 pairs per step, learning rate 1e-4, 10 epochs of 38.2 M pairs =
2.98 M steps. Time: at 40 % of the peak, estimated from FLOPs, 60 hours with the lengths of the paper's Table 1 (24,800 tokens per
step), 72 with those that :paper's pairs have on an excerpt of a dump (29,900); first sections instead of first paragraphs, which is
the default of the generation job, have 77,600. Figure: not run yet; the paper reports MRR@100 .4472 on MS MARCO dev (ANCE top 100)
after fine-tuning. Always report the MLM-only control of the same budget with it.
A larger batch in the same memory: --config.batch_pairs=2048 --config.accumulate=8, and --config.model.remat=dots or layer.
Without a TPU, --dry_run --topology=v3:2x2 compiles the same step and prints its memory and collectives: 64 rows of 512 tokens
need 4,328 MiB per core, all-reduces carry 256 MiB per step (docs/lab/accelerators.md). 544 rows compile and 576 do not, but above
330 XLA probably recomputes activations, which is slower; not measured.
"""

from harp_jax.config import pretrain


def get_config(preset=""):
    c = pretrain(preset)
    c.data = ("enwiki",)  # output of configs/data/enwiki.py
    c.init = "bert-base-uncased"  # the paper starts from BERT-base; a local Hugging Face directory
    c.tasks = ("rqp", "qdm", "rdp", "acm")
    c.batch_pairs = 128
    c.row_length = 512
    c.learning_rate = 1e-4
    c.warmup = 0.1
    c.steps = 2_984_000  # 10 × 38.19 M / 128
    c.dtype = "bfloat16"  # the cores multiply in bf16 anyway; parameters and Adam stay float32
    c.prng = "rbg"  # threefry's dropout bits cost a tenth of the step on TPU; rbg's depend on the mesh
    c.mesh.data = 8
    c.lanes = 8  # one lane per core
    c.log_every = 100
    c.checkpoint_every = 5000
    c.eval_every = 10_000
    return c
