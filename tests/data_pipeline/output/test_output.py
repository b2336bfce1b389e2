"""Two jobs with the same output directory: one writes, the other ends with one line and damages nothing."""

import fcntl
import json
import os
import shutil
import subprocess

import pytest

from data_pipeline.commands.inspect import report
from data_pipeline.output import claim as output
from harp_jax.base.errors import InputError
from tests.support import corpus
from tests.support.generation_job import start

READ = {"source": [], "tokenizer_sha256": "t", "encoder_content": {}}
UNSET = dict.fromkeys(("encoder", "term_weights", "exclude_destinations", "stopwords"), "")
JOB = {"tokenizer": "t", "keep_work": False, "source": {"paths": [], "redirects": [], "index": []}, **UNSET}


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
    assert report(str(tmp_path / "out"), 1)["examples"]["mlm"]


@pytest.mark.parametrize("before", ["lock", "open"])
def test_a_job_that_ends_while_another_takes_its_place_is_not_written_again(tmp_path, monkeypatch, before):
    """The other job ends after we looked for a manifest and before our lock."""
    work = tmp_path / output.WORK
    theirs = output.claim(str(tmp_path), JOB, READ)
    with pytest.raises(InputError, match="another process is writing"):
        output.claim(str(tmp_path), JOB, READ)

    def end():
        with theirs:
            (tmp_path / output.MANIFEST).write_text(json.dumps({"config": JOB, "splits": {}, **READ}))
            shutil.rmtree(work)

    def flock(file, how, taken=fcntl.flock):
        if not theirs.closed:
            end()
        taken(file, how)

    def makedirs(path, taken=os.makedirs, **options):
        taken(path, **options)
        if path == str(work) and not theirs.closed:
            end()

    monkeypatch.setattr(*((fcntl, "flock", flock) if before == "lock" else (os, "makedirs", makedirs)))
    assert output.claim(str(tmp_path), JOB, READ) is None
    assert theirs.closed and [path.name for path in tmp_path.iterdir()] == [output.MANIFEST]
