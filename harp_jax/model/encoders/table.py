"""The encoders by Hugging Face's `model_type`."""

from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.model.encoders import bert, distilbert, electra, modernbert, roberta
from harp_jax.model.encoders.encoder import Encoder, EncoderConfig

ENCODERS: dict[str, Encoder] = {
    "bert": bert.ENCODER,
    "distilbert": distilbert.ENCODER,
    "roberta": roberta.ROBERTA,
    "xlm-roberta": roberta.XLM_ROBERTA,
    "modernbert": modernbert.ENCODER,
    "electra": electra.ENCODER,
}


def encoder_of(model_type: Any, where: str) -> Encoder:
    """The encoder of a `model_type`; InputError, which begins with `where`, if ENCODERS lacks it."""
    if str(model_type) not in ENCODERS:
        raise InputError(
            f"{where}: its model_type is {model_type!r}, not one of {', '.join(ENCODERS)}; use another model"
        )
    return ENCODERS[model_type]


def recorded_shape(config: Mapping[str, Any], workdir: str) -> EncoderConfig:
    """The shape that a workdir's config records. InputError for a workdir of another kind of model."""
    record = config.get("encoder", {})
    return encoder_of(record.get("model_type"), workdir).shape(**record)
