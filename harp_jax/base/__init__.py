"""What every room may use: errors, files, digests, the command-line parser, keys of randomness.

In: paths, options, seeds. Out: opened files, one-line errors with an exit status, generators.
Imports: nothing of the project but `harp_jax.config`.
Files: `errors` (InputError), `files` (reading, writing that replaces, SHA256SUMS), `bucket` (gs://), `progress` (one bar), `cli`
(parsers, checks of paths, exit statuses), `allocator` (malloc and huge pages), `randomness` (keys), `version`.
"""
