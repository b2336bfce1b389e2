"""Shared code of the tests: tiny models, runs, collections, jobs and sites, and every reader with a valid input."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
