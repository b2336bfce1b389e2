"""Outputs that would replace a part of an input that is a folder."""

import argparse
import os

import pytest

from harp_jax.base.digests import write_sums
from harp_jax.base.errors import InputError
from harp_jax.base.option_paths import check_outputs


def check(**options: str) -> None:
    check_outputs(argparse.Namespace(**options))


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.json", "words.tsv", "run.trec"):
        (folder / name).write_text(name)
    write_sums(str(folder), ["model.json"])
    return str(folder)


@pytest.mark.parametrize("name", ["config.json", "model.json", "words.tsv", "SHA256SUMS", "../model/config.json"])
@pytest.mark.parametrize("option", ["model", "words", "encoder", "start"])
def test_a_file_of_a_model_that_is_read_is_not_replaced(model, name, option):
    with pytest.raises(InputError, match="it is of the input .*model, which would be lost"):
        check(**{option: model, "output": os.path.join(model, name)})


def test_a_model_is_not_replaced_by_what_is_made_of_it(model):
    with pytest.raises(InputError, match="it is of the input"):
        check(encoder=model, output=model)
    with pytest.raises(InputError, match="it is of the input"):
        check(model=f"HARP={model}", output=os.path.join(model, "."))


def test_other_files_there_may_be_written(model, tmp_path):
    check(model=model, output=os.path.join(model, "run.trec"))
    check(model=model, output=os.path.join(model, "new.trec"))
    check(model=model, output=str(tmp_path / "config.json"))
    (tmp_path / "docs").mkdir()
    for name in ("docs.tsv", "SHA256SUMS"):
        (tmp_path / "docs" / name).write_text("of another tool")
    check(docs=str(tmp_path / "docs"), output=str(tmp_path / "docs" / "bm25.trec"))
    (tmp_path / "docs" / "bm25.trec").write_text("of the command before")
    check(docs=str(tmp_path / "docs"), output=str(tmp_path / "docs" / "bm25.trec"))
    with pytest.raises(InputError, match="it is of the input"):
        check(docs=str(tmp_path / "docs"), output=str(tmp_path / "docs" / "docs.tsv"))
    check(plan=model, output=model)  # a word that only happens to be a folder's name


def test_two_outputs_are_two_paths(tmp_path):
    with pytest.raises(InputError, match="--markdown and --output are both"):
        check(output=str(tmp_path / "r"), markdown=str(tmp_path / "." / "r"))
