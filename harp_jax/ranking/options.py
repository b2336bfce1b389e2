"""What a re-ranking may be told, and its defaults; parsers read them here, without loading JAX."""

from dataclasses import dataclass

from harp_jax.base.made import InputPath
from harp_jax.corpus.documents import FIELDS

# dtypes by backend, fastest backend first
OFFERED = {"openvino": ("float32", "bfloat16", "int8"), "onnx": ("float32", "int8"), "jax": ("float32", "bfloat16")}
PASSAGES = 4  # windows of a document that become vectors


@dataclass(frozen=True)
class Reranking:
    """How to re-rank. `fields` of the documents; the best `k` candidates (None: all); only the query ids in the file `only`, or
    those of `fold` in the file `folds`; `windows` of a document to score (None: its beginning). `blank_query` scores documents with
    an empty query. The other options as in `rerank.load_scorer`."""

    fields: tuple[str, ...] = FIELDS
    k: int | None = None
    only: InputPath = ""
    folds: InputPath = ""
    fold: str = ""
    windows: int | None = None
    blank_query: bool = False
    max_length: int | None = None
    batch_tokens: int | None = None
    dtype: str = "float32"
    cosine: bool = False
    backend: str = "jax"


DEFAULTS = Reranking()
