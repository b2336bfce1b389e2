"""The training loop of all stages: state, fused step, checkpoints, metrics, resume.

In: a config and a workdir. Out: checkpoints and metrics in the workdir; rerunning resumes.
Imports: model, input, objectives, checkpoints, stages.
Files: train (the table of contents: mesh, stage, workdir, state, step, batches, loop); step (the fused step); probe
(gradient norm of each loss); mlm_head (that head alone, where the start lacks it); state (shapes and shardings); optimizer;
loop; memory (what is free of it, before and during a run); workdir (one run at a time, one config); metrics_log; wandb_log;
cost and hardware (FLOPs of a step, peak FLOP/s of devices); dry_run (memory, collectives and time before a run); rate
(seconds of a step, measured); `stages/` (what differs between trainings).
"""
