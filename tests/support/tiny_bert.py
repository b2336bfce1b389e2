"""A BERT small enough for tests, with random biases and norms, and batches for it."""

import jax
import numpy as np

from harp_jax.checkpoints.huggingface import save_hf, save_vectors
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

CONFIG = BertShape(vocab_size=48, layers=2, hidden=32, heads=4, intermediate=64, max_positions=40)
WORDS = """the a of in cat dog mat sat ran red blue green one two three ##s ##ed ##ing , . ? !"""


def small_tokenizer(size: int = 46) -> Tokenizer:
    tokens = SPECIAL_TOKENS + tuple(WORDS.split())
    return Tokenizer.of_words(tokens + tuple(f"[unused{i}]" for i in range(size - len(tokens))))


def random_params(config: BertShape, seed: int = 0) -> dict:
    """Parameters with random biases and norms: zeros and ones would hide a wrong mapping."""
    tree = jax.eval_shape(lambda key: init_params(config, key), jax.random.key(0))
    rng = np.random.default_rng(seed)

    def leaf(path, x):
        value = rng.normal(0, 0.2, x.shape).astype(np.float32)
        return value + 1 if path[-1].key == "scale" else value

    return jax.tree_util.tree_map_with_path(leaf, tree)


def save_encoder(directory: str, tokenizer: Tokenizer, positions: int, made: Embedding | None = None) -> str:
    """Writes an encoder of 2 × 32 with fresh parameters, without heads; returns the directory. `made`: as a sentence encoder."""
    shape = BertShape(tokenizer.size, 2, 32, 2, 64, positions, initializer_range=0.3)
    params = jax.device_get(jax.jit(lambda key: init_params(shape, key))(jax.random.key(0)))
    if made:
        save_vectors(directory, shape, params, tokenizer, made, "")
    else:
        save_hf(directory, shape, {"encoder": params["encoder"]}, tokenizer, "")
    return directory


def pair_batch(tokenizer: Tokenizer, pairs: list[tuple[str, str]], length: int = 24) -> dict[str, np.ndarray]:
    """One row per pair: [CLS] query [SEP] document [SEP]."""
    names = ("tokens", "segment_ids", "position_ids", "token_type_ids")
    batch = {name: np.zeros((len(pairs), length), np.int32) for name in names}
    for row, (query, document) in enumerate(pairs):
        q = [tokenizer.cls, *tokenizer.encode(query), tokenizer.sep]
        d = [*tokenizer.encode(document), tokenizer.sep]
        n = len(q) + len(d)
        batch["tokens"][row, :n] = q + d
        batch["segment_ids"][row, :n] = 1
        batch["position_ids"][row, :n] = np.arange(n)
        batch["token_type_ids"][row, len(q) : n] = 1
    return batch


PAIRS = [("the cat", "the cat sat in the mat ."), ("one dog ?", "two dogs"), ("red", "blue, green; red ran ! why")]
