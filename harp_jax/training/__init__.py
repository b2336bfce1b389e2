"""Training of all encoder stages: state, fused step, checkpoints, metrics, resume.

In: a config and a workdir. Out: checkpoints and metrics in the workdir; rerunning resumes.
Imports: corpus, text, model, input, objectives, checkpoints, ranking (to select parameters).
Files: train (the story from mesh to loop); step (the fused step); loop; workdir (one run at a time, one config; metrics to JSON
lines and TensorBoard); machine (FLOPs of steps and devices, memory checks); dry_run
(memory, collectives and time before a run, also for devices that are not attached); recorded (a training
as a step of an experiment); `stages/` (what differs).
"""
