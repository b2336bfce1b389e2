"""The heads on the encoder: a relevance score from the first token, and masked language modelling with its loss."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from harp_jax.model.attention import place_of
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.layers import Dropout, by_parts, gelu, initializer, layer_norm
from harp_jax.model.products import as_computed


class MlmHead(nn.Module):
    """Dense layer, GELU, layer norm, and the word embedding matrix, passed by the caller, as decoder."""

    config: EncoderConfig

    def setup(self) -> None:
        c = self.config
        self.transform = nn.Dense(c.hidden, use_bias=c.biased, dtype=c.dtype, kernel_init=initializer(c))
        self.norm = layer_norm(c)
        self.bias = self.param("bias", nn.initializers.zeros, (c.vocab_size,))

    def __call__(self, hidden: jax.Array, embedding: jax.Array) -> jax.Array:
        x = self._transformed(hidden)
        wide = jnp.promote_types(self.config.dtype, jnp.float32)
        logits = jnp.einsum("...h,vh->...v", x, embedding.astype(x.dtype), preferred_element_type=wide)
        return logits + self.bias.astype(wide)

    def losses(self, hidden: jax.Array, embedding: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        """-log p(target) and whether the target is the most probable word, without storing the logits."""
        loss = lambda words, hidden, targets: vocabulary_cross_entropy(hidden, words, self.bias, targets)  # noqa: E731
        return by_parts(loss, embedding, self._transformed(hidden), targets)

    def _transformed(self, hidden: jax.Array) -> jax.Array:
        return self.norm(gelu(self.transform(hidden)))


class Ranker(nn.Module):
    """Encoder, pooler, score head and MLM head: the model that is pre-trained, fine-tuned and exported. The encoder's parameters
    are the subtree "encoder". Within Flax it is named after its model_type, because the random numbers of initialisation and
    dropout depend on the name."""

    config: EncoderConfig

    def setup(self) -> None:
        c = self.config
        self.encoder = c.module(name=c.model_type)
        self.pooler = c.pooler()
        # At least float32: bfloat16 scores would tie, and ties are broken by the first stage's order.
        self.score = nn.Dense(1, dtype=jnp.promote_types(c.dtype, jnp.float32), kernel_init=initializer(c))
        self.mlm = MlmHead(c)
        self.drop = Dropout(c.dropout)

    def apply(self, variables: Mapping[str, Any], *inputs: Any, **options: Any) -> Any:
        """`nn.Module.apply` for a tree with the subtree "encoder"."""
        params = dict(variables["params"])
        return super().apply({"params": {self.config.model_type: params.pop("encoder"), **params}}, *inputs, **options)

    def encode(self, batch: dict[str, jax.Array], deterministic: bool = True) -> jax.Array:
        """Hidden states [rows, T, hidden] of a packed batch (array names of `input/packing.fill`). Each sequence is a query and a
        document with special tokens (HARP Eq. 8, and the Transformer of Eq. 17)."""
        return self.encoder(batch, deterministic)

    def scored(
        self, batch: Mapping[str, jax.Array], positions: jax.Array | None = None, deterministic: bool = True
    ) -> tuple[jax.Array, jax.Array]:
        """Relevance scores [rows, K] float32, and hidden states [rows, M, hidden] at `positions` [rows, M] (None: at none). The
        scored sequences begin at `batch["cls_offset"]` [rows, K] (MLP of HARP Eq. 7, 17). For other tokens the last layer computes
        only keys and values, unless the score is computed from the mean of all. Gathers stay within rows: a global gather would
        make every device collect all activations."""
        starts = batch["cls_offset"]
        positions = starts[:, :0] if positions is None else positions
        if self.config.pooling == "cls":
            hidden = self.encoder(batch, deterministic, jnp.concatenate([starts, positions], axis=1))
            pooled, hidden = hidden[:, : starts.shape[1]], hidden[:, starts.shape[1] :]
        else:
            hidden = self.encoder(batch, deterministic)
            pooled = segment_means(hidden, batch["segment_ids"], starts).astype(hidden.dtype)
            hidden = jnp.take_along_axis(hidden, positions[:, :, None], axis=1)
        return self.score(self.drop(self.pooler(pooled), deterministic))[..., 0], hidden

    def mlm_logits(self, hidden: jax.Array, positions: jax.Array) -> jax.Array:
        """Vocabulary logits [rows, M, vocab] float32 at `positions` [rows, M] only."""
        gathered = jnp.take_along_axis(hidden, positions[:, :, None], axis=1)
        return self.mlm(gathered, self.encoder.embeddings.word.embedding)

    def mlm_losses(self, hidden: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Loss (float32) and hit (bool) of each target, [rows, M]; hidden: [rows, M, hidden]."""
        return self.mlm.losses(hidden, self.encoder.embeddings.word.embedding, targets)

    def attention_rows(self, batch: dict[str, jax.Array], query_positions: jax.Array) -> jax.Array:
        """See `EncoderConfig.module`."""
        return self.encoder.attention_rows(batch, query_positions)

    def __call__(self, batch: dict[str, jax.Array], positions: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Scores and MLM logits; uses every parameter, so that `init` creates the whole tree."""
        scores, hidden = self.scored(batch, positions)
        return scores, self.mlm(hidden, self.encoder.embeddings.word.embedding)


def init_params(config: EncoderConfig, key: jax.Array) -> dict:
    """A new parameter tree, float32: truncated normal, zero biases."""
    zeros = jnp.zeros((1, 8), jnp.int32)
    batch = {name: zeros for name in ("tokens", "segment_ids", "position_ids", "token_type_ids")}
    batch["cls_offset"] = zeros[:, :1]
    params = dict(Ranker(config).init(key, batch, zeros[:, :1])["params"])
    return {"encoder": params.pop(config.model_type), **params}


def segment_means(hidden: jax.Array, segments: jax.Array, starts: jax.Array) -> jax.Array:
    """Means [rows, K, hidden], in at least float32, over the segments that begin at `starts` [rows, K]; segments: [rows, T]."""
    wide = jnp.promote_types(hidden.dtype, jnp.float32)
    own = jnp.take_along_axis(segments, starts, axis=1)[:, :, None] == segments[:, None, :]
    sums = jnp.einsum("rkt,rth->rkh", own.astype(hidden.dtype), hidden, preferred_element_type=wide)
    return sums / own.sum(-1, dtype=wide)[..., None]


HEAD_RULES = (
    (r"(pooler(/dense)?|transform)/kernel$", P("fsdp", "model")),
    (r"mlm/bias$", P("model")),
    (r"score/kernel$", P()),
    (r"((mlm|pooler)/norm/(scale|bias)|(pooler|transform|score)/bias)$", P()),
)


def rules(shape: EncoderConfig) -> tuple[tuple[str, P], ...]:
    """The sharding rules of a `Ranker`'s parameters."""
    return shape.rules + HEAD_RULES


def step_flops(shape: EncoderConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """FLOPs of one step (forward and backward, 2 per multiply-add): 3 × the forward pass's matrix products. `rows` of `length`
    slots, with `sequences` scored and `predictions` masked tokens per row; the encoder's last layer is computed for these tokens
    only. XLA's own figure counts a loop's body once and ignores custom calls."""
    h = shape.hidden
    heads = 2 * rows * (sequences * h * h + predictions * (h * h + h * shape.vocab_size))
    return 3.0 * (shape.forward_flops(rows, length, sequences + predictions) + heads)


@jax.custom_vjp
def vocabulary_cross_entropy(
    hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """MLM loss (HARP Eq. 15) without storing the logits hidden·embeddingᵀ + bias, and whether the target's logit is the largest.
    hidden: [rows, M, H]; embedding: [vocab, H]; bias: [vocab]; targets: [rows, M] int32. Returns loss (float32) and hit (bool),
    [rows, M]. The exponentials are the only array of the vocabulary's size stored for the backward pass: the gradient is two matrix
    products with them, scaled on the small operands. Automatic differentiation of the logits makes six more passes over them."""
    return _vocabulary_forward(hidden, embedding, bias, targets)[0]


def _vocabulary_forward(hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array) -> tuple:
    wide, narrow = jnp.promote_types(hidden.dtype, jnp.float32), hidden.dtype
    # The bias is an extra column: adding it, and summing its gradient, would be separate passes over the logits. A GPU's fast
    # kernels need rows of a multiple of 8 numbers.
    more = 7 if place_of(hidden).platform == "gpu" else 0
    words = jnp.pad(jnp.concatenate([embedding, bias[:, None]], axis=1), ((0, 0), (0, more))).astype(narrow)
    extended = jnp.concatenate([hidden, jnp.ones((*targets.shape, 1 + more), narrow)], axis=2)
    logits = jnp.einsum("rmh,vh->rmv", extended, words, preferred_element_type=wide)
    top = logits.max(-1)
    target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    weights = jnp.exp(logits - top[..., None])
    total = weights.sum(-1)
    # dlogits = g/total·(weights - total·onehot(target)): the term in brackets is computed in place.
    stored = (extended, words, _add_at(weights, targets, -total).astype(narrow), total, embedding[:0], bias[:0])
    return (jnp.log(total) + top - target, target >= top), stored


def _vocabulary_backward(stored: tuple, cotangents: tuple) -> tuple:
    """Backward: two matmuls with softmax minus one-hot; the empty arrays carry the gradients' dtypes."""
    extended, words, bracket, total, embedding, bias = stored
    scale = (cotangents[0] / total)[..., None]
    size = embedding.shape[1]
    # Without the bias's column, which would make the number of outputs odd.
    to_hidden = jnp.einsum("rmv,vh->rmh", bracket, words[:, :size], preferred_element_type=total.dtype) * scale
    # As [H, vocab]: transposing this is cheaper than transposing the bracket. Rows and positions are one dimension, since XLA would
    # copy the bracket to sum over two.
    scaled, tall = (x.reshape(-1, x.shape[-1]) for x in ((extended * scale).astype(extended.dtype), bracket))
    to_words = as_computed(jnp.einsum("nh,nv->hv", scaled, tall, preferred_element_type=total.dtype), scaled).T
    hidden = to_hidden.astype(extended.dtype)
    return hidden, to_words[:, :size].astype(embedding.dtype), to_words[:, size].astype(bias.dtype), None


def _add_at(x: jax.Array, index: jax.Array, update: jax.Array) -> jax.Array:
    """x [rows, M, vocab] with `update` [rows, M] added at `index`; rows and M stay batch dimensions, which can be sharded. A CPU
    adds in place. A GPU would read and write all of x; there `where` fuses with the operations before and after it."""
    if place_of(x).platform == "gpu":
        places = lax.broadcasted_iota(index.dtype, x.shape, 2)
        return jnp.where(places == index[..., None], x + update[..., None], x)
    dimensions = lax.ScatterDimensionNumbers(
        (), (2,), (2,), operand_batching_dims=(0, 1), scatter_indices_batching_dims=(0, 1)
    )
    return lax.scatter_add(x, index[..., None], update, dimensions, indices_are_sorted=True, unique_indices=True)


vocabulary_cross_entropy.defvjp(_vocabulary_forward, _vocabulary_backward)
