"""Forty judged queries with a relevant document each, and one without."""

QRELS = {f"q{i}": {f"d{i}": 1} for i in range(40)} | {"none": {"d1": 0}}
