"""The command line: files of related commands, with `arguments_parser()` and `main(arguments)`; the library never sees a Namespace.

In: options. Out: what the library makes, its messages, and an exit status (`harp_jax/base/cli.py`).
Imports: every room; nothing imports this one but `harp_jax/__main__.py`.
Files: `table` (every command, in the order of use), `options` (what several commands share); then the commands, named in each
file's first line: `first_stage`, `rerank`, `evaluate`, `training`, `plan`, `site`.
"""
