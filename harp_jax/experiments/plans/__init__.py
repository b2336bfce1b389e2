"""The shipped plans: experiments of the papers and of this project, by name in `harp plan NAME`.

In: options. Out: a list of `Command`.
Imports: experiments.
Files: `tables`, `figure4` (HARP), `coarse_tuning`, `linklearn`, `neural_ir` (the other papers), `recipe`, `demo`.
"""
