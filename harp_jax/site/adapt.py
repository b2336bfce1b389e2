"""A sentence encoder adapted to a site (`harp site --train=vectors`): the text around a link finds the page it leads to.

The recipe is configs/retriever.py, on pairs of configs/data/site.py whose texts are as long as that config's rows. The result is a
sentence-transformers directory for any vector database.
"""

import importlib
import os
import shutil
from functools import partial

from harp_jax.base.made import KEPT, InputPath, Speed, once
from harp_jax.base.steps import Steps
from harp_jax.config import read_config
from harp_jax.site.options import Source, Training
from harp_jax.site.ranker import MIN_PAIRS, measure_rate, records, steps_within
from harp_jax.training.recorded import train

CONFIG, TASK = "retriever", "adp"


def adapt_encoder(source: Source, training: Training, encoder: str, folder: str, output: str, steps: Steps) -> str:
    """Writes the adapted `encoder` to `output`; pairs and checkpoints are in FOLDER. Returns "", or why there are too few pairs.

    An encoder adapted to earlier pages with the same options is kept.
    """
    if publish_encoder.already(training, encoder, "", output=output):
        return ""
    place, config = partial(os.path.join, folder), read_config(CONFIG)
    job, texts = source.config(), config.row_length - 2
    with job.unlocked():
        job.update(tokenizer=encoder, seed=training.seed, tasks=(TASK,), max_query_tokens=texts, max_doc_tokens=texts)
    pairs = place("vector_pairs")
    steps("Make pairs of the links", importlib.import_module("data_pipeline.pipeline").generate, job, output=pairs)
    if (count := records(pairs, TASK, "train")) < MIN_PAIRS:
        return f"too few training pairs ({count:,}; {MIN_PAIRS} needed)"
    with config.unlocked():
        config.update(init=encoder, data=(pairs,), tasks=(TASK,), seed=training.seed, eval_every=0)
    rate = steps("Measure the rate of training", measure_rate, config, output=place("vector_rate.json"))
    with config.unlocked():
        config.steps = min(config.steps, steps_within(training.minutes, rate, count, config.batch_pairs))
    print(f"{config.steps} steps of training, about {config.steps * rate / 60:.0f} min", flush=True)
    steps("Adapt the encoder", train, config, output=place("vectors"))
    steps("Export the encoder", publish_encoder, training, encoder, place("vectors"), output=output)
    return ""


@once(changed=KEPT)
def publish_encoder(training: Training, encoder: InputPath, workdir: Speed[str], output: str) -> None:
    """Exports the trained encoder."""
    from harp_jax.checkpoints.export import export_model

    shutil.rmtree(output, ignore_errors=True)
    export_model(workdir, output)
