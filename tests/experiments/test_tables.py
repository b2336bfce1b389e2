"""The papers' tables end to end: one neural ranker here, the transformers in `make real`."""

import json

import pytest

from harp_jax.__main__ import main as harp
from harp_jax.experiments.execution import Children, execute
from harp_jax.experiments.plan import load_plan, resolve
from tests.support import corpus
from tests.support.commands import python
from tests.support.ranking_collection import write_collection

SIZE = "mesh.data=-1,model.layers=1,model.hidden=32,model.heads=2,model.max_positions=64,row_length=64,lanes=1"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_collection(tmp_path)


@pytest.fixture
def in_process(monkeypatch):
    """Runs all commands in this process: in separate ones, each would import JAX for seconds."""

    def here(_children: Children, argv: list[str], **_options: object) -> tuple[int, int]:
        harp(argv[argv.index("harp_jax") + 1 :])
        return 0, 0

    monkeypatch.setattr(Children, "run", here)


def rows(path: str) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    with open(path) as file:
        for line in file.readlines()[1:]:
            system, measure, _, value, _ = line.split("\t")
            found.setdefault((system, measure), []).append(float(value))
    return found


def test_table_2_of_a_neural_ranker(folder, in_process, capsys):
    options = ["transformers=", "neural_rankers=knrm", "lexical=bm25,ql,length", "blank=", "tested=0"]
    options += ["fields=body", "depth=10", "measures=RR@10 AP", "folds=folds.tsv"]
    options.append("neural=lanes=1,steps=4,batch_pairs=32,window=16")
    steps = resolve(load_plan("tables").commands(options), "out")
    execute(steps, "out")
    found = rows(steps[-1].place)
    assert steps[-1].command.name == "table_bm25"
    assert {system for system, _ in found} == {"BM25", "ql", "length", "knrm", "chance"}
    assert all(len(values) == 10 for values in found.values())  # the queries of fold 0
    assert sum(found["BM25", "RR@10"]) / 10 > 0.9  # a query is three of the twelve words of its document
    printed = capsys.readouterr().out
    assert "against BM25" in printed and "chance (mean of 300)" in printed
    execute(resolve(load_plan("tables").commands(options), "out"), "out")
    assert "already done" in capsys.readouterr().out


@pytest.mark.real
@pytest.mark.parametrize(
    "options",
    [
        ["transformers=none,mlm,harp", "neural_rankers=", "lexical=ql,bm25f,expanded,inlinks", "tested=0,1"],
        ["transformers=none,harp", "seeds=0,1", "tested=0,1", "lexical=", "neural_rankers=", "ensembles=true"],
        ["transformers=harp,no_mlm,no_qdm", "tested=0", "lexical=", "neural_rankers="],
        ["transformers=none,harp", "sizes=4,8", "draws=2", "steps=3", "shares=50,100"],
    ],
)
def test_every_table_of_transformers(folder, options):
    """Links, pairs, pre-training, fine-tuning and the table, with one layer and a few updates: tests only the wiring."""
    plan, last = ("figure4", "large") if "sizes=4,8" in options else ("tables", "table_bm25")
    corpus.write(folder / "corpus")
    lines = [line for path in sorted((folder / "corpus").glob("*.jsonl")) for line in path.read_text().splitlines()]
    words = [row.split("\t")[3] for row in (folder / "docs.tsv").read_text().splitlines()]
    with open(folder / "pages.jsonl", "w") as file:
        for page in map(json.loads, lines):
            number = int(page["id"][1:])
            page["id"] = f"d{number}"
            page["text"] += f"\n{words[number % 40]}"
            for link in page["links"]:
                link["target"] = link["target"].replace("alias-", "p").replace("p", "d", 1)
            file.write(json.dumps(page) + "\n")
    settings = ["source=pages.jsonl", "encoder=idf", "tokenizer=corpus/vocab.txt"]
    settings.append("generation=validation_fraction=0.2,workers=1,memory_limit=500MB")
    settings.append(f"pretrain=steps=3,batch_tokens=600,eval_every=0,window=64,{SIZE}")
    settings += ["fields=body", "depth=10", "folds=folds.tsv", "rerank=max_length=64"]
    settings.append(f"settings=epochs=1.0,negatives=3,batch_pairs=16,window=16,{SIZE}")
    settings += options
    done = python("-m", "harp_jax", "plan", plan, "--output=out", *(f"--set={s}" for s in settings), cwd=folder)
    steps = {step.command.name: step for step in resolve(load_plan(plan).commands(settings), "out")}
    assert steps[last].done and all(step.done for step in steps.values())
    if last == "table_bm25":
        assert ("harp", "RR@10") in rows(steps[last].place) and "chance" in done.stdout
