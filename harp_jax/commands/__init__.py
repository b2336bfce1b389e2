"""The command line: one file a command, with `arguments_parser()` and `main(arguments)`; the library never sees a Namespace.

In: options. Out: what the library makes, its messages, and an exit status (`harp_jax/base/cli.py`).
Imports: every room; nothing imports this one but `harp_jax/__main__.py`.
Files: `table` (every command, in the order of use); then one a command, named after it (`first_stage` is `harp first-stage`):
`words`, `linklearn_train`, `first_stage`, `tune_first_stage`, `rerank`, `linklearn_rank`, `priors`, `fuse`,
`evaluate`, `report`, `compare`, `queries`, `look`, `query_probe`, `plan`, `cross_validate`, `few_shot`, `parquet`, `site` and its
parts `rate`, `verdict`.
"""
