"""Two jobs with the same output directory: one writes, the other ends with one line and damages nothing."""

import subprocess

import pytest

from data_pipeline.output.inspection import inspect
from tests.support import corpus
from tests.support.generation_job import start


@pytest.mark.faults
def test_of_two_jobs_started_together_one_writes(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    config = corpus.write_config(tmp_path / "config.py", folder, tasks=("mlm",), workers=1)
    jobs = [start(config, tmp_path / "out", stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [job.communicate(timeout=300)[1] for job in jobs]
    # The second one either finds the job finished, or is rejected.
    assert sorted(job.returncode for job in jobs) in ([0, 0], [0, 2])
    for job, text in zip(jobs, said):
        errors = [line for line in text.splitlines() if "error" in line.lower()]
        assert len(errors) == (job.returncode == 2) and "Traceback" not in text
        assert not errors or "another process is writing" in errors[0]
    assert inspect(str(tmp_path / "out"), 1).examples["mlm"]
