"""Okapi BM25 as in LinkLearn's paper, and the tuning of its K and B."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress

K_GRID = (0.0, 0.1, 0.2, 0.4, 0.6, 0.9, 1.2, 1.6, 2.0, 3.0)
B_GRID = (0.0, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class Okapi:
    """d_i = (K + 1)·tf·idf / (K·((1 - B) + B·l/L) + tf); a query's weights are its counts."""

    k: float = 1.2
    b: float = 0.75

    @staticmethod
    def from_json(data: Mapping[str, float]) -> "Okapi":
        """From its fields. Raises InputError for values outside of K ≥ 0 and B of 0 to 1."""
        okapi = Okapi(float(data["k"]), float(data["b"]))
        if not (0 <= okapi.k < math.inf and 0 <= okapi.b <= 1):
            raise InputError(f"{okapi} is no Okapi: K is 0 or more, B is 0 to 1; train again")
        return okapi

    def query(self, tf: np.ndarray, idf: np.ndarray, length: int) -> np.ndarray:
        return tf.astype(np.float32)

    def documents(
        self, tf: np.ndarray, terms: np.ndarray, owner: np.ndarray, idf: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        norm = self.k * (1.0 - self.b + self.b * lengths / max(lengths.mean(), 1e-9))
        return (self.k + 1.0) * tf * idf[terms] / (norm[owner] + tf)


def tuned(value: Callable[[Okapi], float]) -> tuple[Okapi, float]:
    """The best of the grid by `value` (larger is better, ties to the first), and its value."""
    grid = [Okapi(k, b) for k, b in itertools.product(K_GRID, B_GRID)]
    values = [value(okapi) for okapi in progress(grid, total=len(grid), unit="settings", desc="Okapi")]
    best = int(np.argmax(values))
    return grid[best], values[best]


def at_the_edge(okapi: Okapi) -> list[str]:
    """Parameters that are the smallest or largest of the grid, so that better values may be outside. K ends at 0, B at 0 and 1."""
    edges = {"K": (okapi.k, K_GRID, (0.0,)), "B": (okapi.b, B_GRID, (0.0, 1.0))}
    return [name for name, (x, grid, ends) in edges.items() if x in (min(grid), max(grid)) and x not in ends]
