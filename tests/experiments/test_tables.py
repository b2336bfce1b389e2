"""The papers' tables end to end: one neural ranker here, the transformers in `make real`."""

import gzip
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from harp_jax.base import steps
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.experiments.benchmark import DOCS, TESTS, TRAIN
from harp_jax.experiments.experiment import find
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer
from tests.support import corpus
from tests.support.ranking_collection import write_collection
from tests.support.tiny_bert import random_params, save_encoder

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


def systems(path: str) -> set[str]:
    return {system for system, _ in rows(path)}


NEURAL = "transformers= neural_rankers=knrm lexical=bm25,ql blank= fields=body depth=10 measures=RR@10 tested=0 folds=folds.tsv"


def test_a_table_of_a_neural_ranker_and_what_a_second_run_does(folder, capsys):
    run("tables", NEURAL, "neural=steps=4,batch_pairs=32")
    expected = {(system, "RR@10"): 10 for system in ("BM25", "ql", "knrm", "chance")}  # the queries of fold 0
    assert rows("out/table_bm25.tsv") == expected
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
        ("fields=title,text", "fields=text is unknown; choose from title, url, body"),
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
    """Linked pages, for tiny trainings; the collection's documents get their ids."""
    corpus.write(folder / "corpus", files=1)
    shutil.copy("corpus/pages-0.jsonl", "pages.jsonl")
    for path in (folder / name for name in ("docs.tsv", "qrels.txt", "run.trec")):
        path.write_text(re.sub(r"\bd(\d+)\b", r"p\1", path.read_text()))


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
    ensembles = "ensembles=true" in options
    assert "harp" in systems("out/table_bm25.tsv") and ("knrm_given+BM25" in systems("out/table_bm25.tsv")) == ensembles
    printed = capsys.readouterr().out
    assert "chance" in printed and f"against {'harp+BM25' if ensembles else 'harp'}" in printed


@pytest.mark.real
def test_ms_marco_from_the_published_files_to_four_tables(pages, folder, capsys):
    """A quarter of the collection's queries is for training, the others are the three test sets."""
    (folder / f"{DOCS}.gz").write_bytes(gzip.compress((folder / "docs.tsv").read_bytes()))
    for number, files in enumerate((TRAIN, *TESTS.values())):
        for source, name in zip(("queries.tsv", "qrels.txt", "run.trec"), files):
            lines = (folder / source).read_text().splitlines(keepends=True)
            (folder / name).write_text("".join(line for line in lines if int(line[1:].split()[0]) % 4 == number))
    run("msmarco", TRAINING, "folder=. folds= transformers=none,harp")
    for test in TESTS:
        assert set(rows(f"out/msmarco_official_{test}.tsv").values()) == {10}
        row = {"official", "bm25", "ql", "none", "harp", "harp_blank", "chance"}
        assert systems(f"out/msmarco_official_{test}.tsv") == row
    assert "against harp" in capsys.readouterr().out

    # Table 3: HARP as it was trained above, another encoder, and their mean.
    save_encoder("other", load_tokenizer("corpus/vocab.txt"), 64)
    run("table3", TRAINING, "folder=. folds= others=other")
    assert systems("out/table3_official_dev.tsv") == {"official", "harp", "other", "ensemble", "chance"}
    assert "Pre-train harp, seed 0 · already done" in capsys.readouterr().out

    run("msmarco", TRAINING, "folder=. folds= transformers=none bm25=tuned tests=dev")
    assert Path("out/msmarco_bm25_dev.html").exists() and Path("out/bm25_dev.trec").exists()

    run("table1", TRAINING)
    printed = capsys.readouterr().out
    assert "rqp" in printed and "90.48" in printed and printed.endswith(Path("out/table1.txt").read_text())


@pytest.mark.real
def test_the_figure_of_few_and_many_queries(pages):
    run("figure4", TRAINING, "transformers=none,harp few=4,8 draws=2 steps=3 large=50%,100%")
    assert Path("out/few.svg").read_text().startswith("<?xml")
    few = [line.split("\t") for line in Path("out/few.txt").read_text().splitlines()[1:]]
    expected = [["BM25", "-", "1"], *([name, size, "2"] for name in ("none", "harp") for size in ("4", "8"))]
    assert [row[:3] for row in few] == expected and all(row[4] <= row[3] <= row[5] for row in few)
    four, eight = (Path(f"out/few_queries/draw-01/{size}.txt").read_text().split() for size in (4, 8))
    assert four == eight[:4]


@pytest.mark.real
def test_recipes_of_one_encoder(pages):
    save_encoder("start", load_tokenizer("corpus/vocab.txt"), 64)
    own = "candidates=BM25=run.trec init=start teacher=start rows=links,taught scale=small tokenizer= "
    own += "pretrain=steps=3,batch_tokens=600,eval_every=0,window=64,row_length=64,lanes=1,dtype=float32"
    run("recipe", TRAINING.replace("source_config=data/linked_jsonl:paper", ""), own)
    assert systems("out/table_bm25.tsv") == {"BM25", "cosine", "links", "taught", "blank", "chance"}
    assert os.path.isdir("out/taught_pairs_taught")


@pytest.mark.real
def test_rows_of_vectors_share_pairs_and_weights(pages):
    made = Embedding("mean", ("Normalize",), (), ("", ""), 40, recorded=True)
    save_encoder("start", load_tokenizer("corpus/vocab.txt"), 64, made)
    own = "init=start tokenizer= scale=full max_length=30 measures=RR@10 rows=map,weights,both,map_titles "
    own += "pretrain=steps=2,eval_every=0,row_length=40,lanes=1,mesh.data=-1,window=32,batch_pairs=8,dtype=float32"
    run("vectors", TRAINING.replace("source_config=data/linked_jsonl:paper", ""), own)
    expected = {(system, "RR@10"): 40 for system in ("start", "map", "weights", "both", "map_titles")}
    assert rows("out/table_1.tsv") == expected
    assert {path.name for path in Path("out").glob("pairs_*")} == {"pairs_map", "pairs_map_titles"}
    assert "out/weights_s0" in Path("out/both_map_s0/made.json").read_text()


@pytest.mark.real
def test_linklearn_from_pages_to_a_collection(pages):
    paths = "data=. linked=pages.jsonl docs=docs.tsv queries=queries.tsv qrels=qrels.txt rows= redirects= exclude="
    run("linklearn", paths, "settings=steps=20,hidden=(10,)")
    expected = {"BM25", "QL", "okapi", "linklearn", "linked_negatives", "ranknet", "chance"}
    assert systems("out/table.tsv") == expected


@pytest.mark.real
def test_six_systems_of_coarse_tuning(folder):
    """Clicks on half of the documents for each query; a row for each setting of the grids."""
    texts = [line.split("\t\t\t") for line in (folder / "docs.tsv").read_text().splitlines()]
    (folder / "docs.jsonl").write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in texts))
    (folder / "folds.tsv").write_text("".join(f"q{i}\t{i % 2}\n" for i in range(40)))
    queries = (folder / "queries.tsv").read_text().splitlines()
    clicks = [f"{query}\td{(i + j) % 40}\thttp://x\n" for i, query in enumerate(queries) for j in range(20)]
    (folder / "orcas.tsv").write_text("".join(clicks))
    marked = Tokenizer.of_words((*load_tokenizer("tokenizer").tokens, "[unused0]", "[unused1]"))
    shape = BertShape(marked.size, layers=1, hidden=32, heads=2, intermediate=64, max_positions=256)
    save_hf("bert-tiny", shape, random_params(shape), marked, "")
    (folder / "dl").mkdir()
    for name in ("docs.jsonl", "queries.tsv", "qrels.txt", "folds.tsv"):
        shutil.move(name, "dl")
    one = "trials=1 continual_epochs=1 fine_epochs=1 coarse_epochs=1"
    run("coarse_tuning", "collection=dl click_docs=docs.tsv samples=0.5,1.0", one)
    grid = (f"{row}{share}" for row in ("coarse_tuned", "coarse_fine") for share in ("_s0.5", "_s1"))
    expected = {"BM25", "pretrained", "fine_tuned", "cont_pre_fine", "chance", *grid}
    measures = ("RR", "nDCG@5", "nDCG@15", "nDCG@30", "AP")
    assert rows("out/table.tsv") == {(system, measure): 40 for system in expected for measure in measures}
