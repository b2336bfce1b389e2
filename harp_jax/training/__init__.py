"""Training of all encoder stages: state, fused step, checkpoints, metrics, resume.

In: a config and a workdir. Out: checkpoints and metrics in the workdir; rerunning resumes.
Imports: corpus, text, model, input, objectives, checkpoints, ranking (to select parameters).
Files: train (the story from mesh to loop); step (the fused step); workdir (one run at a time, one config; metrics); machine (FLOPs
of steps and devices, free memory); dry_run (memory and collectives, also of devices that are not attached); recorded (a training as
a step of an experiment); linear_map (a map of an encoder's vectors); `stages/` (what differs).
"""
