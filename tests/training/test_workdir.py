"""What a workdir binds a run to: its config, and the content of its data."""

import argparse

import pytest

import harp_jax.training.train
from harp_jax.base.errors import InputError
from harp_jax.main import main
from harp_jax.training import workdir
from harp_jax.training.workdir import claim_workdir
from tests.support.tiny_run import tiny_config, tiny_stage


def claim(config, workdir) -> None:
    claim_workdir(str(workdir), config, tiny_stage(config)).close()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("pairs/manifest.json", ("[1, 2]", "[2, 1]"), r"started on other data: .*manifest\.json changed since"),
        ("run/config.json", ('"seed": 0', '"seed": 1'), r"config\.json was changed since it was written"),
    ],
)
def test_a_run_on_other_data_or_with_a_changed_config_is_refused(tmp_path, file, change, message):
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "manifest.json").write_text('{"shards": [1, 2]}')
    config = tiny_config(str(tmp_path), data=(str(tmp_path / "pairs"),))
    claim(config, tmp_path / "run")
    claim(config, tmp_path / "run")
    path = tmp_path / file
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(InputError, match=message):
        claim(config, tmp_path / "run")


def test_large_inputs_are_told_apart_by_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(workdir, "WHOLE", 10)
    monkeypatch.setattr(workdir, "END", 4)
    path = tmp_path / "docs.tsv"
    found = []
    texts = "0123456789 012x456789 0123456789abcdef 0123456789abcdeg x123456789abcdef 0123456789abcdef0"
    for text in texts.split():
        path.write_text(text)
        found.append(workdir.large_content(str(path)))
    assert len(set(found)) == 6


def test_sigterm_ends_the_command_with_the_status_of_a_terminated_process(tmp_path, monkeypatch):
    monkeypatch.setattr(harp_jax.training.train, "train", lambda *_: {"interrupted": 1.0})
    given = argparse.Namespace(config=tiny_config(str(tmp_path)), workdir=str(tmp_path), dry_run=False, coordinator="")
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 143 and not (tmp_path / "command.txt").exists()
