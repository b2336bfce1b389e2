"""All missing inputs are reported together, with how to obtain them."""

import contextlib

import pytest

from data_pipeline.config import generation, plain
from harp_jax.__main__ import main
from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.config import read_config
from tests.support import ROOT


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    (tmp_path / "docs.tsv").write_text("d\tu\tt\tb\n")
    monkeypatch.chdir(tmp_path)


HUB = "to use a model from the Hugging Face Hub, run `hf download {0} --local-dir {1}` and name the folder {1}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rerank --docs=docs.tsv --queries=q.tsv --model=cross-encoder/tiny --run=irds:a/b --output=o",
         "no such file or folder: --model=cross-encoder/tiny, --queries=q.tsv; check the paths; "
         + HUB.format("cross-encoder/tiny", "tiny")),
        ("evaluate HARP=a.trec,docs.tsv b.trec --qrels=qrels.txt",
         "no such file or folder: a.trec, b.trec, --qrels=qrels.txt; check the paths"),
        ("train --config=finetune --workdir=w --config.init=bert-base-uncased/ --config.docs=docs.tsv",
         "missing inputs: queries is not set, qrels is not set, candidates is not set, init does not exist "
         "(bert-base-uncased/); set each as --config.FIELD=PATH; " + HUB.format("bert-base-uncased", "bert-base-uncased")),
    ],
)  # fmt: skip
def test_a_command_names_all_absent_inputs(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2 and capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (["docs.tsv"], {"output": "docs.tsv"}, "it is the input docs.tsv, which would be lost"),
        (["HARP=model,./docs.tsv"], {"text": "model/../docs.tsv"}, "it is the input ./docs.tsv, which would be lost"),
        (["docs.tsv"], {"output": "link"}, "it is the input docs.tsv"),
        (["docs.tsv"], {"text": "hard"}, "it is the input docs.tsv"),
        (["--model=model"], {"output": "link_to_model/config.json"}, "belongs to the input model"),
        ([], {"output": "r", "text": "./r"}, "two outputs have this path"),
        ([], {"output": "gs://bucket/run"}, "buckets are not supported"),
        (["model", "irds:x/y", "gs://bucket/docs", "part-*.jsonl"], {"output": "model/run.trec", "text": ""}, ""),
    ],
)
def test_no_output_replaces_what_is_read(inputs, outputs, said, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("docs.tsv")
    (tmp_path / "link_to_model").symlink_to("model")
    (tmp_path / "hard").hardlink_to(tmp_path / "docs.tsv")
    parser = Parser(prog="x", description="")
    parser.add_input("paths", nargs="*")
    for name in ("output", "text"):
        parser.add_output(f"--{name}")
    parser.add_input("--model", model=True)
    arguments = parser.parse_args([*inputs, *(f"--{name}={path}" for name, path in outputs.items())])
    with pytest.raises(InputError, match=said) if said else contextlib.nullcontext():
        parser.check_paths(arguments)


def test_a_generation_job_names_all_missing_inputs():
    with pytest.raises(InputError, match=r"config\.source\.paths is .*; config\.tokenizer is .*; config\.encoder is"):
        plain(generation())


def test_unknown_fields_are_named_together_with_their_stages():
    fields = ["--config.folds=d", "--config.stepz=1", "--config.model.name=3", "--config.zzz=1"]
    with pytest.raises(InputError) as raised:
        read_config(str(ROOT / "configs/tpu_v3.py"), fields)
    text = str(raised.value)
    assert "--config.folds (belongs to finetune, neural_ir" in text
    assert "--config.stepz (did you mean steps?)" in text
    assert "--config.model.name (belongs to neural_ir" in text and "--config.zzz (in no stage)" in text


def test_paths_are_no_ids_of_the_hub():
    assert not any(map(how_to_fetch, ("/models/bert", "../bert", "a/b/c", "gs://a/b")))


def test_of_a_field_given_twice_the_last_value_holds():
    """ml_collections would join the tuples, so that rqp stays among the tasks."""
    given = ["--config.tasks=('rqp','qdm')", "--config.seed", "3", "--config.tasks=('adp',)", "--config.seed=4"]
    config = read_config(str(ROOT / "configs/tpu_v3.py"), given)
    assert (config.tasks, config.seed) == (("adp",), 4)
