"""The tests: one folder per package, `support` (shared code), `faults` (kills), `real` (real data)."""
