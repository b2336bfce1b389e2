"""The command line: one file a command, with `arguments_parser()` and `main(arguments)`; the library never sees a Namespace.

In: options. Out: what the library makes, its messages, and an exit status (`harp_jax/cli.py`).
Imports: every room; nothing imports this one but `harp_jax/__main__.py`.
Files: one a command, named after it (`first_stage.py` is `harp first-stage`); `table` lists them in the order of their use.
"""
