"""The report: verdict, table, curves, wins and losses, and cost, as a self-contained page and as Markdown."""

import json
import math
import os
import re
from html.parser import HTMLParser

import pytest

from harp_jax.base.errors import InputError
from harp_jax.evaluation.provenance import behind
from tests.support.commands import command

QUERIES = 20
HOSTILE = "</style><script>alert(1)</script> & <b>|`*_#"
MANIFEST = {
    "tokenizer_sha256": "0",
    "splits": {},
    "tasks": {
        "rqp": {"pairs": 1200, "tokens": 98765, "mean_query_tokens": 3.2, "mean_doc_tokens": 40.0,
                "predictors": {"overlap": 0.61, "length": 0.65, "in_links": 0.3}},
        "mlm": {"pairs": 10, "tokens": 100},
    },
}  # fmt: skip


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(page)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def runs(tmp_path):
    """Judgments, a first stage, a better and a worse ranker, one at chance, and texts."""
    qids, docs = range(QUERIES), "abcdef"
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 {i}a 1\n" for i in qids))
    (tmp_path / "queries.tsv").write_text("".join(f"{i}\tquestion {i} {HOSTILE}\n" for i in qids))
    (tmp_path / "docs.tsv").write_text("".join(f"{i}{d}\ttext of {i}{d} {HOSTILE}\n" for i in qids for d in docs))
    places = {"bm25": lambda i: 2, "good": lambda i: i % 2, "bad": lambda i: 4, "luck": lambda i: i % 6}
    for name, place in places.items():
        orders = {i: f"{'bcdef'[: place(i)]}a{'bcdef'[place(i) :]}" for i in qids}
        lines = [f"{i} Q0 {i}{d} {rank} {-rank} x\n" for i in qids for rank, d in enumerate(orders[i], 1)]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    return tmp_path


def workdir(folder):
    folder.mkdir()
    rows = [{"step": s, "split": "train", "loss": 5.0 - s, "mlm_loss": 4.0, "tokens": 50.0} for s in (1, 2, 3)]
    rows += [{"step": s, "split": "validation", "rqp_accuracy": a} for s, a in ((0, 0.5), (2, 0.6), (3, 0.75))]
    rows += [{"step": 3, "split": "validation", "mlm_loss": math.nan}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def written(folder, *options):
    """(HTML, Markdown) of a report of the fixture's runs."""
    page, text = folder / "report.html", folder / "report.md"
    given = {"qrels": folder / "qrels.txt", "measures": "RR@10 nDCG@10", "output": page, "markdown": text}
    command("report", *options, **given)
    return page.read_text(), text.read_text()


def run(folder, name, file=""):
    return f"--run={name}={folder}/{file or name}.trec"


def test_the_page_says_everything_and_fetches_nothing(runs):
    job = runs / "job"
    job.mkdir()
    (job / "manifest.json").write_text(json.dumps(MANIFEST))
    texts = [f"--docs={runs}/docs.tsv", "--fields=body", f"--query_texts={runs}/queries.tsv"]
    options = [run(runs, "bm25"), run(runs, "<A & B>", "good")]
    options += [f"--curves=mine={workdir(runs / 'w')}", f"--pairs=job={job}"]
    html, markdown = written(runs, *options, *texts, "--chance=bm25", "--remark=as measured", f"--title={HOSTILE}")
    page = Page(html)
    for part in ("<A & B> ranks better than bm25.", "0.7500", "0.3333", "1,200", "in links 0.70", "text of 0a"):
        assert part in page.text
    assert all(part in markdown for part in ("| 0.7500 |", "as measured", "better"))
    assert "rank 3 → 1" in page.text and "better than bm25 on 20, worse on 0" in page.text
    # Data is never markup, and the page loads nothing.
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "img", "iframe")]
    assert html.count(HOSTILE) == 0 and HOSTILE in page.text
    assert not re.search(r"(?<!\\)[`<]", markdown) and not re.search(r"(src|href|url)\s*[=(]", html)
    spoken = [attrs.get("aria-label", "") for tag, attrs in page.tags if tag == "svg"]
    assert any("mine from 0.5 at step 0 to 0.75 at step 3; chance is 0.5." in label for label in spoken)
    assert "nan" not in html.lower()  # a loss that is not a number is not drawn


def test_verdicts_worse_undecided_and_blank(runs):
    worse, _ = written(runs, run(runs, "bm25"), run(runs, "bad"))
    assert "bad ranks worse than bm25." in Page(worse).text
    undecided, _ = written(runs, run(runs, "bm25"), run(runs, "luck"))
    assert f"{QUERIES} queries do not decide whether luck ranks better than bm25." in Page(undecided).text
    blank, _ = written(runs, run(runs, "bm25"), run(runs, "good"), run(runs, "blanked", "good"), "--blank=good=blanked")
    assert "good does not read the query: it ranks no better than with the query blanked." in Page(blank).text
    assert "documents scored without the query" in Page(blank).text
    beside, markdown = written(runs, run(runs, "bm25"), run(runs, "luck"), run(runs, "good"), "--chance=bm25")
    for text in (Page(beside).text.split("Systems by")[0], markdown):
        assert "luck is at chance level: it orders its candidates no better than a random order. RR@10" in text


def test_wrong_options_are_named(runs, tmp_path):
    one = run(runs, "bm25")
    for options, said in (
        ([one, "--focus=absent"], "no run is named 'absent' for --focus; the runs are bm25"),
        ([one, f"--curves=mine={tmp_path}/absent"], "the curves of mine: .* has no metrics; name a training workdir"),
        ([], "nothing to report: give --qrels and --run"),
    ):
        with pytest.raises(InputError, match=said):
            written(runs, *options)
    with pytest.raises(InputError, match="is not the output of `harp plan`"):
        command("report", runs, output=runs / "x.html")


@pytest.fixture
def plan(runs):
    """The output of a plan that generated, trained, re-ranked and evaluated, with its records."""
    output = runs / "plan"
    (output / ".plan").mkdir(parents=True)
    os.rename(workdir(output / "w"), output / "harp-1")
    (output / "pairs-1").mkdir()
    (output / "pairs-1" / "manifest.json").write_text(json.dumps(MANIFEST))
    os.rename(runs / "good.trec", output / "good-1.trec")
    (output / "table-1.tsv").write_text("")
    texts = f"--docs={runs}/docs.tsv --fields=body --queries={runs}/queries.tsv"
    commands = {
        "pairs": f"generate --config=x --output={output}/pairs-1",
        "harp": f"train --config.data=\"('{output}/pairs-1',)\" --workdir={output}/harp-1",
        "good": f"rerank --model={output}/harp-1 {texts} --output={output}/good-1.trec",
        "other": f"rerank --output={output}/other-1.trec",
        "table": f"evaluate bm25={runs}/bm25.trec good={output}/good-1.trec --qrels={runs}/qrels.txt --baseline=bm25 "
        f"--measures=RR@10 --chance=bm25 --per_query={output}/table-1.tsv",
    }
    for name, words in commands.items():
        record = {"name": name, "command": f"python -m harp_jax {words}", "seconds": 60.0, "memory_bytes": 3 * 10**9}
        (output / ".plan" / f"{name}-1.json").write_text(json.dumps(record))
    return output


def test_a_finished_plan_is_reported_by_its_directory(plan):
    command("report", plan, output=plan / "report.html")
    text = Page((plan / "report.html").read_text()).text
    assert "good ranks better than bm25." in text and "plan: table" in text and "text of 0a" in text
    # Only the records of steps that it depends on count, not the plan's other run.
    assert [record.name for record in behind([str(plan / "good-1.trec")])] == ["pairs", "harp", "good"]
    assert "3 min in 3 steps; 150 tokens trained on; 3.0 GB of memory in the largest process." in text
    assert "Trained on: pairs" in text and "RQP accuracy" in text and "question 0" in text
    with pytest.raises(InputError, match="has no finished table absent; it has table"):
        command("report", plan, step="absent", output=plan / "report.html")
