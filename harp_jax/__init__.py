"""Pre-training for ad-hoc retrieval from hyperlinks and anchor texts (HARP, CIKM'21), in JAX.

    import harp_jax as hj

    model = hj.Reranker.from_pretrained("ranker")
    run = hj.rerank_run(model, "bm25.trec", "queries.tsv", "docs.tsv", k=100)
    print(hj.evaluate("qrels.txt", {"BM25": "bm25.trec", "HARP": run}, "RR@10 AP", baseline="BM25"))

docs/library.md has an example of every name. Names are imported on first use: `import harp_jax` loads neither JAX nor numpy.
For the same on the command line see `harp --help`.
"""

import importlib
from typing import TYPE_CHECKING

from harp_jax.base.version import __version__ as __version__

if TYPE_CHECKING:
    from harp_jax.api import Reranker as Reranker
    from harp_jax.api import adapt as adapt
    from harp_jax.api import evaluate as evaluate
    from harp_jax.api import first_stage as first_stage
    from harp_jax.api import generate as generate
    from harp_jax.api import load_config as load_config
    from harp_jax.api import read_run as read_run
    from harp_jax.api import rerank_run as rerank_run
    from harp_jax.api import train as train
    from harp_jax.api import write_run as write_run
    from harp_jax.base.errors import InputError as InputError
    from harp_jax.checkpoints.export import export_model as export_model
    from harp_jax.corpus.documents import Documents as Documents
    from harp_jax.corpus.trec import read_qrels as read_qrels
    from harp_jax.corpus.trec import read_queries as read_queries
    from harp_jax.ranking.scorers import Windows as Windows
    from harp_jax.ranking.vectors import Retriever as Retriever
    from harp_jax.site.pages import Site as Site
    from harp_jax.site.search import CombinedSearch as CombinedSearch

# Module → its public names.
_NAMES = {
    "api": "Reranker adapt evaluate first_stage generate load_config read_run rerank_run train write_run",
    "base.errors": "InputError",
    "checkpoints.export": "export_model",
    "corpus.documents": "Documents",
    "corpus.trec": "read_qrels read_queries",
    "ranking.vectors": "Retriever",
    "ranking.scorers": "Windows",
    "site.pages": "Site",
    "site.search": "CombinedSearch",
}
_MODULES = {name: f"harp_jax.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'harp_jax' has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
