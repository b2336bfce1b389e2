"""The generation job on a Spark cluster of two executors writes the local engine's bytes, also after kills."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.corpus_site import write_site
from tests.support.generation_job import hashes, start
from tests.support.processes import wait_for

pytestmark = pytest.mark.faults
pytest.importorskip("pyspark", reason="needs pyspark: make spark")
if not shutil.which("java") and "JAVA_HOME" not in os.environ:
    pytest.skip("needs Java 17", allow_module_level=True)

CLUSTER = ("--engine=spark", "--master=local-cluster[2,1,1024]")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The config, and hashes of the local engine's output."""
    root = tmp_path_factory.mktemp("spark")
    folder = corpus.write(root / "corpus", files=4)
    tasks = ("rqp", "qdm", "rdp", "acm", "adp", "ict", "wlp", "prop", "mlm")
    fields = dict(encoder="idf", workers=2, tasks=tasks, prop_distribution="contrastive")
    config = corpus.write_config(root / "config.py", folder, **fields)
    assert start(config, root / "local").wait() == 0
    return config, written(root / "local")


@pytest.fixture
def beside(made) -> Path:
    """A directory next to the local engine's, since the manifest has the vocabulary's path relative to the output."""
    return Path(tempfile.mkdtemp(dir=made[0].parent))


def written(directory: Path) -> dict[str, str]:
    """Hashes of shards and manifest."""
    return hashes(directory) | hashes(directory, "manifest.json")


def executors(session: int) -> list[int]:
    """The executor processes of a job that was started in a new session."""
    command = ["pgrep", "--session", str(session), "--full", "CoarseGrainedExecutorBackend"]
    return [int(pid) for pid in subprocess.run(command, capture_output=True, text=True).stdout.split()]


@pytest.mark.parametrize("begun", ["", "pages", "requests of sentences.marks/all", "pairs.marks"])
def test_a_cluster_writes_the_local_engines_bytes_also_if_an_executor_is_killed(made, beside, begun):
    """Kills none, in the joins of the link graph, in those of the pages' passages, and in a map."""
    config, expected = made
    process = start(config, beside, *CLUSTER, start_new_session=True)
    if begun:
        wait_for(beside / ".work" / begun, process, 0.3)
        running = executors(process.pid)
        assert len(running) == 2
        os.kill(running[0], signal.SIGKILL)
    assert process.wait() == 0
    assert written(beside) == expected
    assert not (beside / ".work").exists()


@pytest.mark.parametrize("first, second", [(CLUSTER, ()), ((), CLUSTER)], ids=["cluster", "local"])
def test_a_job_killed_on_one_engine_is_finished_by_the_other(made, beside, first, second):
    config, expected = made
    process = start(config, beside, *first)
    wait_for(beside / ".work" / "targets", process, 0.3)
    process.kill()
    process.wait()
    assert not (beside / "manifest.json").exists()
    assert start(config, beside, *second).wait() == 0
    assert written(beside) == expected


def test_web_pages_on_a_cluster(tmp_path):
    """Only web pages have a join between two maps, for boilerplate."""
    folder = corpus.write(tmp_path / "corpus", files=1)
    source = dict(format="html", paths=(write_site(folder / "site"),), redirects=(), base_url="https://x.org/")
    config = corpus.write_config(tmp_path / "config.py", folder, encoder="idf", workers=2, source=source)
    assert start(config, tmp_path / "local").wait() == 0
    expected = written(tmp_path / "local")
    losses = json.loads((tmp_path / "local" / "manifest.json").read_text())["losses"]
    assert len(expected) > 5 and losses["link-boilerplate"]["count"] == 3 * corpus.PAGES
    assert start(config, tmp_path / "out", *CLUSTER).wait() == 0
    assert written(tmp_path / "out") == expected
