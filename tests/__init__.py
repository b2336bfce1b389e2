"""The tests: a folder for each room, `support` for what they share, `faults` (kills), `real` (real data)."""
