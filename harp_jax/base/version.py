"""The version, for the package, its files on disk, and pyproject.toml."""

__version__ = "0.1.0"
