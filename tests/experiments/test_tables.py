"""The papers' tables end to end: one neural ranker here, the transformers in `make real`."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from harp_jax.base import steps
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.experiments.experiment import find
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.ranking_collection import write_collection
from tests.support.tiny_bert import random_params

SIZE = "mesh.data=-1,model.layers=1,model.hidden=32,model.heads=2,model.max_positions=64,row_length=64,lanes=1"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A collection, whose experiments run in this process: in separate ones, each step would import JAX for seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "in_process", lambda function, log: function)
    return write_collection(tmp_path)


def run(name: str, *options: str) -> None:
    """The experiment, with those of the options that it has, separated by spaces."""
    experiment = find(name)
    words = [word for text in options for word in text.split() if word.partition("=")[0] in experiment.defaults]
    experiment.function("out", **experiment.arguments(words))


def rows(path: str) -> dict[tuple[str, str], int]:
    """The number of values of each system and measure."""
    return Counter(tuple(line.split("\t")[:2]) for line in Path(path).read_text().splitlines()[1:])


NEURAL = "transformers= neural_rankers=knrm lexical=bm25,ql blank= fields=body depth=10 measures=RR@10 tested=0 folds=folds.tsv"


def test_a_table_of_a_neural_ranker_and_what_a_second_run_does(folder, capsys):
    run("tables", NEURAL, "neural=steps=4,batch_pairs=32")
    systems = ("BM25", "ql", "knrm", "chance")
    assert rows("out/table_bm25.tsv") == {(system, "RR@10"): 10 for system in systems}  # the queries of fold 0
    printed = capsys.readouterr().out
    assert all(said in printed for said in ("against BM25", "chance (mean of 300)", "Train bm25: knrm_s0, fold 0\n"))
    run("tables", NEURAL, "neural=steps=4,batch_pairs=32")
    assert "Train bm25: knrm_s0, fold 0 · already done" in capsys.readouterr().out
    with pytest.raises(InputError, match="out/bm25/knrm_s0_f0 was made with config.steps=4, now 5; .*--force"):
        run("tables", NEURAL, "neural=steps=5,batch_pairs=32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("docs=absent.tsv folds=none.tsv", "missing: absent.tsv, none.tsv; nothing was started"),
        ("tested=9", "tested=9 is not a fold; the folds of folds.tsv are 0, 1, 2, 3"),
        ("transformers=bert", "transformers=bert is unknown; choose from none, sjtf, harp"),
        ("tested=0 ensembles=true", "fit weights on other tested folds"),
        ("test_queries=dev=queries.tsv folds=", "name different test sets"),
        ("rerank=max_lenght=3 transformers=none", "rerank: max_lenght=3: .*the options are fields .*, k "),
        ("candidates=A=run.trec,a=run.trec", "a=run.trec: write NAME=PATH, and every name once"),
    ],
)
def test_wrong_options_end_before_anything_is_trained(folder, options, message):
    usual = "fields=body folds=folds.tsv lexical= neural_rankers= transformers=none tokenizer=tokenizer candidates=A=run.trec"
    with pytest.raises(InputError, match=message):
        run("tables", usual, options)
    assert not list(folder.glob("out/**/metrics.jsonl"))


TRAINING = (
    "source=pages.jsonl source_config=data/linked_jsonl:paper encoder=idf tokenizer=corpus/vocab.txt init= scale=tiny "
    "fields=body depth=10 rerank=max_length=64 folds=folds.tsv generation=validation_fraction=0.2,workers=1,memory_limit=500MB "
    f"pretrain=steps=3,batch_tokens=600,eval_every=0,window=64,prng=threefry,dtype=float32,{SIZE} "
    f"settings=epochs=1.0,negatives=3,batch_pairs=16,window=16,dtype=float32,{SIZE} "
)


@pytest.fixture
def pages(folder):
    """Linked pages about the collection's documents, for tiny trainings."""
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


@pytest.mark.real
@pytest.mark.parametrize(
    "options",
    [
        "transformers=none,mlm,harp neural_rankers= lexical=ql,bm25f,expanded,inlinks tested=0,1",
        "transformers=none,harp seeds=0,1 tested=0,1 lexical= neural_rankers=knrm_given ensembles=true neural=steps=4",
        "transformers=harp,no_mlm,no_qdm tested=0 lexical= neural_rankers=",
    ],
)
def test_every_table_of_transformers(pages, options, capsys):
    """Links, pairs, pre-training, fine-tuning and the table, with one layer and a few updates: tests only the wiring."""
    run("tables", TRAINING, options)
    systems = {name for name, _ in rows("out/table_bm25.tsv")}
    assert "harp" in systems and ("knrm_given+BM25" in systems) == ("ensembles=true" in options)
    printed = capsys.readouterr().out
    assert "chance" in printed and f"against {'harp+BM25' if 'ensembles=true' in options else 'harp'}" in printed


@pytest.mark.real
def test_the_figure_of_few_and_many_queries(pages):
    run("figure4", TRAINING, "transformers=none,harp few=4,8 draws=2 steps=3 large=50%,100%")
    assert Path("out/few.svg").read_text().startswith("<?xml")
    few = [line.split("\t")[:3] for line in Path("out/few.txt").read_text().splitlines()[1:]]
    assert few == [["BM25", "-", "1"], *([name, size, "2"] for name in ("none", "harp") for size in ("4", "8"))]
    four, eight = (Path(f"out/few_queries/draw-01/{size}.txt").read_text().split() for size in (4, 8))
    assert four == eight[:4]


@pytest.mark.real
def test_statistics_of_the_pairs(pages, capsys):
    run("table1", TRAINING)
    printed = capsys.readouterr().out
    assert "rqp" in printed and "90.48" in printed and printed.endswith(Path("out/table1.txt").read_text())


@pytest.mark.real
def test_recipes_of_one_encoder(pages):
    words = load_tokenizer("corpus/vocab.txt")
    shape = BertShape(words.size, layers=1, hidden=32, heads=2, intermediate=64, max_positions=64)
    save_hf("start", shape, random_params(shape), words, "")
    own = "candidates=BM25=run.trec init=start teacher=start rows=links,taught scale=small tokenizer= "
    own += "pretrain=steps=3,batch_tokens=600,eval_every=0,window=64,row_length=64,lanes=1,dtype=float32"
    run("recipe", TRAINING.replace("source_config=data/linked_jsonl:paper", ""), own)
    systems = {name for name, _ in rows("out/table_bm25.tsv")}
    assert systems == {"BM25", "cosine", "links", "taught", "blank", "chance"}
    assert os.path.isdir("out/taught_pairs_taught")


@pytest.mark.real
def test_linklearn_from_pages_to_a_collection(pages):
    paths = "data=. linked=pages.jsonl docs=docs.tsv queries=queries.tsv qrels=qrels.txt rows= redirects= exclude="
    run("linklearn", paths, "settings=steps=20,hidden=(10,)")
    systems = {"BM25", "QL", "okapi", "linklearn", "linked_negatives", "ranknet", "chance"}
    assert {name for name, _ in rows("out/table.tsv")} == systems
