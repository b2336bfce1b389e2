"""Shared code of the tests.

Models and runs: `synthetic` (invented pairs, their tokenizer and reader), `tiny_bert` (an encoder of 2 × 32 and its batches),
`tiny_run` (a tiny pre-training run, also a command), `training_processes` (such runs in separate processes), `processes` (of a
command that a test kills), `shards_fixture` (a finished generation job on disk), `ranking_collection` (a collection to fine-tune
on, judged queries), `objective` (the loss of one batch).
Rankers: `slow_neural_ir` (the neural rankers as loops in numpy).
Generation: `corpus` (an invented corpus and the config of a job), `corpus_site` (its pages as a web site), `generation_job`
(a job's outputs), `source_files` (dumps, crawls), `source_reading`, `malformed` (malformed pages), `steps` (executed lines as a
clock).
Fuzzing: `readers` (every reader with valid inputs), `fuzzing` (mutates them; only InputError may be raised).
Commands: `commands` (in this process, or Python as a child).
Real data: `shared_data` (where it is).
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
