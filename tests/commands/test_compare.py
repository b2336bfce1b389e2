"""`harp compare`: the files that a collection name stands for, and a whole comparison with its report."""

import os

import pytest

from harp_jax.base.errors import InputError
from harp_jax.corpus.query_sets import judged_queries
from harp_jax.corpus.trec import read_queries
from tests.support.architectures import saved
from tests.support.commands import command, python
from tests.support.look_site import DOCS, write_site
from tests.support.tokenizers import save_trained


@pytest.fixture
def beir(tmp_path):
    """A BEIR folder with two splits, and a ranker."""
    site = write_site(tmp_path / "site")
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text((site / "pages" / "docs.jsonl").read_text())
    lines = [f'{{"_id": "{n}", "text": "red {word} \\n mat"}}\n' for n, word in enumerate(("cat", "dog", "sat", "ran"))]
    (folder / "queries.jsonl").write_text("".join(lines))
    for split, rows in (("test", "0\td1\t1\n1\td2\t2\n2\td4\t1\n"), ("train", "3\td1\t1\n")):
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


@pytest.mark.parametrize("given, level", [("queries.tsv", 1), ("", 1), ("", 0)])
def test_a_collection_is_not_lost_to_its_judged_queries(tmp_path, given, level):
    said = "it is the input .* which would be lost" if level else "none of the 1 judged queries has a relevant document"
    (tmp_path / "queries.tsv").write_text("1\tred\n2\tblue\n")
    (tmp_path / "judgments").write_text(f"1 0 d1 {level}\n3 0 d1 1\n")  # query 3 has no text
    with pytest.raises(InputError, match=said):
        judged_queries(str(tmp_path / given), str(tmp_path / "judgments"), str(tmp_path))
    assert read_queries(f"{tmp_path}/queries.tsv") == {"1": "red", "2": "blue"}


def test_wrong_input_is_named_before_anything_runs(beir, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model, out = f"{tmp_path}/site/ranker", f"{tmp_path}/out"
    for name, output, said in (
        ("no/model", out, "no/model is not a directory, and the Hub does not serve it .*hf download no/model"),
        (f"BM25={model}", out, "is taken"),  # by a row of the table
        (model, f"{beir}/out", "it is inside the input .*beir; choose an --output outside"),
    ):
        with pytest.raises(InputError, match=said):
            command("compare", beir, model=name, output=output)
        assert not os.path.exists(output)


@pytest.mark.real
def test_a_comparison_ends_in_a_report_and_is_not_repeated(beir, tmp_path):
    tokenizer = save_trained("modernbert", str(tmp_path / "tokenizer"), [" ".join(each) for each in DOCS.values()], 300)
    models = [tmp_path / "site" / "ranker", saved("modernbert", tokenizer, tmp_path / "modern")]
    words = ["compare", beir, *(f"--model={each}" for each in models), "--fuse", "--tune", "--fields=title,body"]
    for _ in range(2):
        done = python("-m", "harp_jax", *words, f"--output={tmp_path}/out", "--measures=RR@10 AP")
        for row in ("BM25 ", "ranker ", "BM25 + ranker ", "modern ", "BM25 + modern ", "chance", "oracle"):
            assert row in done.stdout
    assert done.stdout.count("already done") == 8
    other = python("-m", "harp_jax", *words, "--k=2", f"--output={tmp_path}/out", status=2)
    assert "bm25.json was made with candidates.k=100, now 2; choose another output, or --force" in other.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "candidates in the best order" in page and "Wins and losses" in page and DOCS["d1"][1].split()[1] in page
