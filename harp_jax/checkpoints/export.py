"""A training workdir as a Hugging Face directory.

The result loads in transformers (AutoModel, AutoModelForSequenceClassification, BertForPreTraining) and in
sentence-transformers' CrossEncoder, which then scores as the JAX model does (`huggingface.save_hf`). The tokenizer's
model_max_length is the row length of the training.
"""

import os
from dataclasses import replace

from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.huggingface import check_replaceable, load_hf, save_hf
from harp_jax.checkpoints.model_card import model_card
from harp_jax.checkpoints.selected import DIRECTORY, best
from harp_jax.errors import InputError
from harp_jax.model.bert import BertConfig
from harp_jax.text.marks import marks_of
from harp_jax.text.tokenizer import load_tokenizer


def export(workdir: str, output: str) -> None:
    """Writes the newest checkpoint of a training workdir that verifies as a Hugging Face directory.

    Exports the parameters that fine-tuning selected on held-out queries, if it did, and leaves out the MLM head of fine-tuned
    models, which is not trained. The directory appears complete or not at all. Raises InputError if no checkpoint of a BERT
    verifies, and if `output` is anything else than an export or an empty directory.

    >>> import harp_jax as hj
    >>> hj.export("runs/ranker", "exported")
    >>> hj.Reranker.from_pretrained("exported").predict([("red cat", "the red cat sat")]).shape
    (1,)
    """
    check_replaceable(output)
    step, params, config = checkpoint.load_newest(workdir)
    if "bert" not in config:
        raise InputError(
            f"{workdir} holds no BERT; neural rankers are not exported, harp rerank and Reranker read their workdir"
        )
    chosen = best(os.path.join(workdir, DIRECTORY))
    if chosen:
        step = chosen["step"]
        _, params = load_hf(os.path.join(workdir, DIRECTORY, chosen["model"]))
    if config.get("stage") == "finetune":
        params = {name: tree for name, tree in params.items() if name != "mlm"}
    # Whoever loads the export truncates where training did, so that the reported model is the selected one.
    tokenizer = replace(load_tokenizer(os.path.join(workdir, "tokenizer")), max_length=config.row_length)
    card = model_card(workdir, config.to_dict(), output, step)
    marks = marks_of(tokenizer, config.get("query_mark", ""), config.get("document_mark", ""))
    save_hf(output, BertConfig(**config.bert), params, tokenizer, card, marks)
