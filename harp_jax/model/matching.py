"""Initial parameters from which a small encoder learns to match words (`model.initialisation="matching"`)."""

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.model.bert import BertConfig

WORDS = 3.0  # standard deviation of word embeddings, in those of positions and types


def matching_start(config: BertConfig, params: dict, key: jax.Array) -> dict:
    """BERT's fresh parameters (float32), changed in three ways.

    With all three, two layers of 128 learn within 100 updates of 32 pairs that the query's words occur in the positive document;
    with the first alone within 300, and that for one sample of pairs in four.

    - Query and key kernels of a layer are the same normal draw of variance 1 / hidden: equal tokens attend to each other from
      the start ("mimetic" initialisation, Trockman and Kolter 2023).
    - The other kernels of encoder, pooler and score head have this variance too. BERT's standard deviation of .02 suits its
      width: at 128 a layer adds a twentieth to what it reads, and the gradient through two of them is below Adam's epsilon.
    - Word embeddings are WORDS times as large as those of positions and types, which would else make any two words of the
      query as much alike as one word in query and document.
    """
    wider = np.float32(config.hidden**-0.5 / config.initializer_range)

    def changed(path: tuple[jax.tree_util.DictKey, ...], array: np.ndarray) -> np.ndarray:
        names = [entry.key for entry in path]
        if names[-2:] == ["word", "embedding"]:
            return array * np.float32(WORDS)
        if names[-1] != "kernel" or names[0] == "mlm":
            return array
        if names[-2] in ("query", "key"):
            layer = int(names[1].removeprefix("layer_"))
            draw = jax.random.normal(jax.random.fold_in(key, layer), array.shape, jnp.float32)
            return np.asarray(draw) / np.sqrt(np.float32(config.hidden))
        return array * wider

    return jax.tree_util.tree_map_with_path(changed, params)
