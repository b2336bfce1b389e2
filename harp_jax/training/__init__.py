"""The training loop of all stages: state, fused step, checkpoints, metrics, resume.

In: a config and a workdir. Out: checkpoints and metrics in the workdir; rerunning resumes.
Imports: corpus, text, model, input, objectives, checkpoints, ranking, baselines.
Files: train (the table of contents: mesh, stage, workdir, state, step, batches, loop); step (the fused step); state (optimizer,
shapes, shardings); loop; balance (MLM against the pairs: its head trained alone, gradient norms); workdir (one run at a time,
one config); metrics_log (JSON lines, TensorBoard, Weights & Biases); memory (does a step fit this machine); cost (FLOPs of a
step, peak FLOP/s of devices); dry_run (memory, collectives and time before a run); `stages/` (what differs between trainings).
"""
