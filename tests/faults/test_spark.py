"""The generation job on a Spark cluster of two executors writes the local engine's bytes, also after kills."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.generation_job import hashes, start
from tests.support.processes import wait_for

pytestmark = pytest.mark.faults
pytest.importorskip("pyspark", reason="needs pyspark: make spark")
if not shutil.which("java") and "JAVA_HOME" not in os.environ:
    pytest.skip("needs Java 17", allow_module_level=True)

CLUSTER = ("--engine=spark", "--master=local-cluster[2,1,1024]")


def written(directory: Path) -> dict[str, str]:
    """Hashes of shards and manifest."""
    return hashes(directory) | hashes(directory, "manifest.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The config, and hashes of the local engine's output; other outputs must be next to it: manifests have relative paths."""
    root = tmp_path_factory.mktemp("spark")
    tasks = ("rqp", "qdm", "rdp", "acm", "adp", "ict", "wlp", "prop", "mlm")
    fields = dict(encoder="idf", workers=2, tasks=tasks, prop_distribution="contrastive")
    config = corpus.write_config(root / "config.py", corpus.write(root / "corpus", files=4), **fields)
    assert start(config, root / "local").wait() == 0
    return config, written(root / "local")


@pytest.mark.parametrize("begun", ["", "pages", "requests of sentences.marks/all", "pairs.marks"])
def test_a_cluster_writes_the_local_engines_bytes_also_if_an_executor_is_killed(made, tmp_path, begun):
    """Kills none, in the joins of the link graph, in those of the pages' passages, and in a map."""
    (config, expected), output = made, made[0].parent / tmp_path.name
    process = start(config, output, *CLUSTER, start_new_session=True)
    if begun:
        wait_for(output / ".work" / begun, process, 0.3)
        executors = ["pgrep", "--session", str(process.pid), "--full", "CoarseGrainedExecutorBackend"]
        running = subprocess.run(executors, capture_output=True, text=True).stdout.split()
        assert len(running) == 2
        os.kill(int(running[0]), signal.SIGKILL)
    assert process.wait() == 0
    assert written(output) == expected
    assert not (output / ".work").exists()


@pytest.mark.parametrize("first, second", [(CLUSTER, ()), ((), CLUSTER)], ids=["cluster", "local"])
def test_a_job_killed_on_one_engine_is_finished_by_the_other(made, tmp_path, first, second):
    (config, expected), output = made, made[0].parent / tmp_path.name
    process = start(config, output, *first)
    wait_for(output / ".work" / "targets", process, 0.3)
    process.kill()
    process.wait()
    assert not (output / "manifest.json").exists()
    assert start(config, output, *second).wait() == 0
    assert written(output) == expected


def test_web_pages_on_a_cluster(tmp_path):
    """Only web pages have a join between two maps, for boilerplate."""
    folder = corpus.write(tmp_path / "corpus", files=1)
    source = dict(format="html", paths=(corpus.write_site(folder / "site"),), redirects=(), base_url="https://x.org/")
    config = corpus.write_config(tmp_path / "config.py", folder, encoder="idf", workers=2, source=source)
    for name, engine in (("local", ()), ("out", CLUSTER)):
        assert start(config, tmp_path / name, *engine).wait() == 0
    losses = json.loads((tmp_path / "local" / "manifest.json").read_text())["losses"]
    assert losses["link-boilerplate"]["count"] == 3 * corpus.PAGES
    assert written(tmp_path / "out") == written(tmp_path / "local")
