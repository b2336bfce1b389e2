"""MS MARCO from its published files to tables of dev, DL 2019 and DL 2020: 1,000 invented documents, the paper's fields."""

import gzip
import json
from pathlib import Path

import pytest

from harp_jax.base import steps
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.experiments.experiment import find
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.tiny_bert import save_encoder

pytestmark = pytest.mark.real

WORDS = [f"w{i}" for i in range(400)]
SETS = {"doctrain": (0, 80), "docdev": (80, 120), "test2019": (120, 140), "test2020": (140, 160)}
SIZE = "mesh.data=-1,model.layers=1,model.hidden=32,model.heads=2,model.max_positions=64,row_length=64,lanes=1,dtype=float32"


def write(path: Path, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def official(folder: Path) -> None:
    """The files under their published names, in their formats; documents are 12 words, queries three words of theirs."""
    rng = generator("msmarco")
    documents = [rng.choice(WORDS, 12, replace=False) for _ in range(1000)]
    rows = [f"D{i}\thttps://x.invalid/{i}\t{words[0]}\t{' '.join(words)}" for i, words in enumerate(documents)]
    write(folder / "msmarco-docs.tsv.gz", rows)
    for name, (first, last) in SETS.items():
        asked = range(first, last)
        run = [
            f"{q} Q0 D{d} {rank} {100 - rank} IndriQueryLikelihood"
            for q in asked
            for rank, d in enumerate([*(500 + (7 * q + 13 * j) % 500 for j in range(1, 20)), q], 1)
        ]
        write(
            folder / f"msmarco-{name}-queries.tsv.gz", [f"{q}\t{' '.join(rng.choice(documents[q], 3))}" for q in asked]
        )
        write(folder / f"msmarco-{name.replace('test', 'doctest')}-top100.gz", run)
        if name.startswith("test"):
            qrels = [f"{q} Q0 D{q} 3" for q in asked] + [f"{q} Q0 D{q + 1} 0" for q in asked]
            write(folder / f"{name.removeprefix('test')}qrels-docs.txt", qrels)
        else:
            write(folder / f"msmarco-{name}-qrels.tsv.gz", [f"{q} 0 D{q} 1" for q in asked])


def test_from_the_published_files_to_three_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "in_process", lambda function, log: function)
    (folder := tmp_path / "msmarco").mkdir()
    official(folder)
    corpus.write(tmp_path / "corpus", files=1)
    settings = [
        "folder=msmarco", "source=corpus/pages-0.jsonl", "source_config=data/linked_jsonl:paper", "encoder=idf", "scale=tiny",
        "init=", "tokenizer=corpus/vocab.txt", "generation=validation_fraction=0.2,workers=1,memory_limit=500MB",
        f"pretrain=steps=3,batch_tokens=600,eval_every=0,window=64,prng=threefry,{SIZE}", "transformers=none,harp",
        f"settings=negatives=3,batch_pairs=16,window=16,{SIZE}", "rerank=max_length=64",
    ]  # fmt: skip
    experiment = find("msmarco")

    (folder / "2019qrels-docs.txt").rename("qrels")
    with pytest.raises(InputError, match=r"missing: msmarco/2019qrels-docs\.txt; nothing"):
        experiment.function("out", **experiment.arguments(settings))
    assert not Path("out").exists()
    Path("qrels").rename(folder / "2019qrels-docs.txt")

    experiment.function("out", **experiment.arguments(settings))
    for test, count in (("dev", 40), ("dl2019", 20), ("dl2020", 20)):
        rows = [line.split("\t") for line in Path(f"out/msmarco_official_{test}.tsv").read_text().splitlines()[1:]]
        assert {row[0] for row in rows} == {"official", "bm25", "ql", "none", "harp", "harp_blank", "chance"}
        assert len(rows) == 7 * 4 * count
    assert [path.name for path in Path("out/official").glob("harp_s0*") if path.is_dir()] == ["harp_s0"]
    config = json.loads(Path("out/harp_s0/config.json").read_text())
    assert (config["mlm_side"], config["pair_reduction"]) == ("both", "sum")
    assert "against harp" in capsys.readouterr().out

    # Table 3: HARP as it was trained above, another encoder, and their mean.
    save_encoder("other", load_tokenizer("corpus/vocab.txt"), 64)
    table3 = find("table3")
    known = [one for one in settings if not one.startswith("transformers")]
    table3.function("out", **table3.arguments([*known, "others=other"]))
    lines = Path("out/table3_official_dev.tsv").read_text().splitlines()[1:]
    assert {line.split("\t")[0] for line in lines} == {"official", "harp", "other", "ensemble", "chance"}

    tuned = [*settings, "transformers=none", "bm25=tuned", "depth=20", "tests=dev"]
    experiment.function("tuned", **experiment.arguments(tuned))
    assert Path("tuned/msmarco_bm25_dev.html").exists() and Path("tuned/bm25_dev.trec").exists()
