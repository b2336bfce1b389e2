"""Shared by all packages: errors, files, digests, the command-line parser, keyed random generators.

In: paths, options, seeds. Out: opened files, one-line errors with an exit status, generators.
Imports: only `harp_jax.config`.
Files: `errors` (InputError), `files` (reading, atomic writing, SHA256SUMS), `bucket` (gs://), `progress` (bars), `cli` (parsers,
path checks, exit statuses), `made` (what made an output; finished work is not repeated), `steps` (the long steps of a command, in
processes of their own), `allocator` (malloc and huge pages), `randomness` (generators by key), `version`.
"""
