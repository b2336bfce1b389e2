"""A cross-encoder as a `Scorer` on OpenVINO or ONNX Runtime, without torch and without XLA compilation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.encoder import load_ranker
from harp_jax.checkpoints.formats import feed
from harp_jax.input.packing import pair_rows
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.cross_encoder_scorer import check_heads
from harp_jax.ranking.encoder_texts import PairTexts
from harp_jax.ranking.runtimes import Runtime, model_file, onnx_runtime, openvino_runtime
from harp_jax.ranking.scoring import Pair, ProgressBar, batches_by_length
from harp_jax.text.tokenizer import NO_MARKS, Marks, Tokenizer

BATCH_TOKENS = 1024  # two or three long rows, whose activations fit in a core's cache


class RuntimeScorer(PairTexts):
    """`CrossEncoderScorer` with the model computed by a `Runtime`."""

    def __init__(
        self,
        runtime: Runtime,
        config: EncoderShape,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
    ) -> None:
        super().__init__(config, tokenizer, max_length, marks)
        self.batch_tokens = batch_tokens or BATCH_TOKENS
        self._run = runtime

    @classmethod
    def load(
        cls,
        directory: str,
        backend: str,
        dtype: str = "float32",
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> "RuntimeScorer":
        """As `CrossEncoderScorer.load`, for the backend "openvino" or "onnx".

        Raises InputError if the backend's packages are missing, or if int8 was not exported.
        """
        config, params, tokenizer, marks = load_ranker(directory)
        check_heads(params)
        path = model_file(backend, dtype, directory, config, params, tokenizer)
        runtime = onnx_runtime(path) if backend == "onnx" else openvino_runtime(path, dtype)
        return cls(runtime, config, tokenizer, max_length, batch_tokens, marks)

    def use(self, params: Mapping[str, Any]) -> None:
        """Raises InputError: the parameters are fixed in the model file. Selection while training uses JAX."""
        raise InputError("this backend scores with the parameters of its file; use --backend=jax for others")

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32: raw logits, larger is more relevant."""
        batches = (
            (chosen, feed(*pair_rows([pairs[i] for i in chosen], len(chosen), length, self.tokenizer)))
            for chosen, _, length in batches_by_length(self.row_sizes(pairs), self.lengths, self.batch_tokens)
        )
        scores = np.zeros(len(pairs), np.float32)
        for chosen, logits in self._run(batches):
            scores[chosen] = logits[:, 0]
            if bar is not None:
                bar.update(len(chosen))
        return scores
