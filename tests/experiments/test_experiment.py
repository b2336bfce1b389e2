"""Experiments as `harp plan` finds them: options by type, help, files of one's own."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.experiments.experiment import NAMES, find, parsed_settings
from tests.support.commands import command

OWN = '''from dataclasses import dataclass

@dataclass(frozen=True)
class Group:
    """Shared options, as Python 3.13 stores a docstring.
folder: to read"""
    folder: str = "here"

def own(output, group=Group(), seeds=(0, 1), steps=600, rate=0.1, fast=False):
    """Options:
    seeds: of every training"""
    with open(output, "w") as file:
        file.write(repr((group.folder, seeds, steps, rate, fast)))
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def test_options_of_a_file_are_parsed_by_the_type_of_their_defaults(own):
    sets = ["folder=there", "seeds=3", "steps=5", "rate=1", "fast=true"]
    for settings, expected in (([], "('here', (0, 1), 600, 0.1, False)"), (sets, "('there', (3,), 5, 1.0, True)")):
        command("plan", "own.py", *(f"--set={one}" for one in settings), output="out")
        assert (own / "out").read_text() == expected
    given, defaults = ["a=epochs=1.0,fields=('title','body')", "b=", "c=a, b"], {"a": ("",), "b": (0,), "c": ()}
    texts = {"a": ("epochs=1.0", "fields=('title','body')"), "b": (), "c": ("a", "b")}
    assert parsed_settings(given, defaults, "") == texts
    said = find("own.py").help()
    assert "folder  to read (here)" in said and "seeds   of every training (0,1)" in said


@pytest.mark.parametrize("wrong", ["speed=1", "steps", "seeds=0,x", "fast=perhaps"])
def test_wrong_options_are_refused_with_the_list_of_options(own, wrong):
    options = r"the options are seeds \(0,1\), steps \(600\), .* folder \(here\)"
    with pytest.raises(InputError, match=rf"--set, own\.py: {wrong}: .*; {options}"):
        find("own.py").arguments([wrong])


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_ours_is_explained(name):
    experiment = find(name)
    assert experiment.meanings.keys() == experiment.defaults.keys()
