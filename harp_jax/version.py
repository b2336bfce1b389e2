"""The version, for the package, its files on disk, and setup.py."""

__version__ = "0.1.0"
