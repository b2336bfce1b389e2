"""Pre-training for ad-hoc retrieval from hyperlinks and anchor texts (HARP, CIKM'21), in JAX."""

__version__ = "0.1.0"
