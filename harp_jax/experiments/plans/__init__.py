"""The shipped plans: experiments of the papers and of this project, by name in `harp plan NAME`.

In: options. Out: a list of `Command`.
Imports: experiments.
Files: `table1`, `table2`, `table3`, `table4`, `figure4` (HARP), `coarse_tuning`, `linklearn`, `neural_ir` (the other papers),
`zero_shot`, `controls`, `compare`, `demo`, `site`.
"""
