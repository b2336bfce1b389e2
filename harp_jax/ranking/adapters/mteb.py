"""A `Reranker` as an MTEB cross-encoder: `mteb.evaluate(cross_encoder("ranker"), tasks)`; extra [mteb]."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.ranking.reranker import Reranker

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

Batches = Iterable[Mapping[str, list[str]]]  # what MTEB's loaders yield: {"text": […]}, and more


class MtebCrossEncoder:
    """Follows MTEB's `CrossEncoderProtocol`; `reranker` scores the pairs."""

    def __init__(self, model_name: str, revision: str | None = None, device: str | None = None, **options: Any) -> None:
        """`model_name`: an export or training workdir; `options`: those of `Reranker.from_pretrained`. `device` is JAX's."""
        with needs("an MTEB cross-encoder", "mteb", "mteb"):
            from mteb.models.model_meta import ModelMeta
        self.reranker = Reranker.from_pretrained(model_name, **options)
        # MTEB names models OWNER/NAME.
        name = f"harp_jax/{os.path.basename(os.path.abspath(model_name))}"
        self._meta = ModelMeta.create_empty({"name": name, "revision": revision or "local", "loader": MtebCrossEncoder})

    @property
    def mteb_model_meta(self) -> "ModelMeta":
        """Name and revision, under which MTEB files the results."""
        return self._meta

    def predict(
        self,
        inputs1: Batches,
        inputs2: Batches,
        *,
        task_metadata: object = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: object = None,
        **options: Any,
    ) -> np.ndarray:
        """Scores [pairs] float32 of the queries of `inputs1` with the documents of `inputs2`, one by one.

        Raises InputError where the two differ in number.
        """
        queries, documents = ([text for batch in side for text in batch["text"]] for side in (inputs1, inputs2))
        if len(queries) != len(documents):
            raise InputError(f"{len(queries)} queries and {len(documents)} documents make no pairs; pass one each")
        return self.reranker.predict(list(zip(queries, documents)))
