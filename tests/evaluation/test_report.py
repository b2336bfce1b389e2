"""The report: verdict, table, curves, wins and losses, and cost, as a self-contained page and as Markdown."""

import json
import math
import os
import re
from html.parser import HTMLParser

import pytest

from harp_jax.base.errors import InputError
from harp_jax.evaluation import render
from harp_jax.evaluation.provenance import behind, record_truncated
from harp_jax.evaluation.report import panels_of, read_curves
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


class Strict(HTMLParser):
    """Collects tags and texts; fails on a tag that is closed out of order."""

    void = ("meta", "line", "polyline", "circle")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.text = " ".join("".join(self.texts).split())
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.void or self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


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


def workdir(folder, **last):
    folder.mkdir()
    rows = [{"step": s, "split": "train", "loss": 5.0 - s, "mlm_loss": 4.0, "tokens": 50.0} for s in (1, 2, 3)]
    rows += [{"step": s, "split": "validation", "rqp_accuracy": a} for s, a in ((0, 0.5), (2, 0.6), (3, 0.75))]
    rows += [{"step": 3, "split": "validation", "mlm_loss": 4.5, **last}]
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


def test_the_page_says_everything_and_fetches_nothing(runs, capsys):
    job = runs / "job"
    job.mkdir()
    (job / "manifest.json").write_text(json.dumps(MANIFEST))
    texts = [f"--docs={runs}/docs.tsv", "--fields=body", f"--query_texts={runs}/queries.tsv"]
    options = [run(runs, "bm25"), run(runs, "<A & B>", "good")]
    options += [f"--curves=mine={workdir(runs / 'w')}", f"--pairs=job={job}"]
    html, markdown = written(runs, *options, *texts, "--chance=bm25", "--remark=as measured", f"--title={HOSTILE}")
    printed = capsys.readouterr().out
    page = Strict(html)
    assert "<A & B> ranks better than bm25. RR@10 0.750" in printed
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


def test_verdicts_worse_undecided_and_blank(runs):
    worse, _ = written(runs, run(runs, "bm25"), run(runs, "bad"))
    assert "bad ranks worse than bm25." in Strict(worse).text
    undecided, _ = written(runs, run(runs, "bm25"), run(runs, "luck"))
    assert f"{QUERIES} queries do not decide whether luck ranks better than bm25." in Strict(undecided).text
    blank, _ = written(runs, run(runs, "bm25"), run(runs, "good"), run(runs, "blanked", "good"), "--blank=good=blanked")
    assert "good does not read the query: it ranks no better than with the query blanked." in Strict(blank).text
    assert "documents scored without the query" in Strict(blank).text
    beside, markdown = written(runs, run(runs, "bm25"), run(runs, "luck"), run(runs, "good"), "--chance=bm25")
    for text in (Strict(beside).text.split("Systems by")[0], markdown):
        assert "luck is at chance level: it orders its candidates no better than a random order. RR@10" in text


def test_a_ranker_is_called_equal_only_where_every_query_is(runs):
    """A ranker whose win and loss cancel, in queries that share a relevant document, is not called equal."""
    with open(runs / "qrels.txt", "a") as file:
        file.write("1 0 0a 1\n")
    for name, changed in (("old", {}), ("same", {}), ("moved", {0: "ab", 1: "b"})):
        rows = [(i, d, n) for i in range(QUERIES) for n, d in enumerate(changed.get(i, "ba"))]
        (runs / f"{name}.trec").write_text("".join(f"{i} Q0 {i}{d} 1 {-n} x\n" for i, d, n in rows))
    for name, said in (("same", "ranks every query as old does"), ("moved", "20 queries do not decide whether moved")):
        assert said in Strict(written(runs, run(runs, "old"), run(runs, name))[0]).text


def test_truncated_documents_are_counted_over_the_seeds_of_a_run_until_it_is_written_anew(runs):
    for name, documents in (("good", 7), ("luck", 30)):
        record_truncated(str(runs / f"{name}.trec"), documents, 120)
    seeds = f"--run=ranker={runs}/bad.trec,{runs}/good.trec,{runs}/luck.trec"
    for page in written(runs, run(runs, "bm25"), seeds):
        assert "only the beginning of the document was read: ranker in 37 of 240 pairs;" in page
    (runs / "luck.trec").write_text((runs / "bm25.trec").read_text())
    assert "ranker in 7 of 120 pairs" in written(runs, run(runs, "bm25"), seeds)[0]


def test_wrong_options_are_named(runs, tmp_path):
    one = run(runs, "bm25")
    for options, said in (
        ([one, "--curves=run.trec"], "write NAME=PATH"),
        ([one, "--curves=a=1", "--curves=a=2"], "every name once"),
        ([one, "--blank=absent=bm25"], "no run is named 'absent' for --blank; the runs are bm25"),
        ([one, "--focus=absent"], "no run is named 'absent' for --focus; the runs are bm25"),
        ([one, f"--curves=mine={tmp_path}/absent"], "the curves of mine: .* has no metrics; name a training workdir"),
        ([], "nothing to report: give --qrels and --run"),
    ):
        with pytest.raises(InputError, match=said):
            written(runs, *options)
    with pytest.raises(InputError, match="is not the output of `harp plan`"):
        command("report", runs, output=runs / "x.html")


def test_panels_share_their_axes_and_draw_what_is_there(tmp_path):
    short = [{"step": 1, "split": "validation", "rqp_accuracy": 0.9}, {"step": 2, "split": "train", "loss": math.nan}]
    panels = panels_of(read_curves({"long": str(workdir(tmp_path / "w", qdm_accuracy=0.3))}) | {"short": short})
    by_title = {panel.title: panel for panel in panels}
    rqp, qdm = by_title["RQP accuracy, held-out pairs"], by_title["QDM accuracy, held-out pairs"]
    assert {panel.steps for panel in panels} == {(0.0, 3.0)}
    assert rqp.values == qdm.values and rqp.values[0] <= 0.3 and rqp.values[1] == 1.0 and rqp.chance == 0.5
    assert by_title["MLM loss, training"].values == by_title["MLM loss, held out"].values == (0.0, 6.0)
    assert [line.name for line in rqp.lines] == ["long", "short"] and len(rqp.lines[1].points) == 1
    assert [line.name for line in by_title["Training loss"].lines] == ["long"]  # NaN is not drawn
    assert render.path_of(rqp, rqp.lines[0]).startswith("40.0,") and "short from 0.9 at step 1" in render.spoken(rqp)


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


def test_a_finished_plan_is_reported_by_its_directory(plan, capsys):
    command("report", plan, output=plan / "report.html")
    text = Strict((plan / "report.html").read_text()).text
    assert "good ranks better than bm25." in text and "plan: table" in text and "text of 0a" in text
    # Only the records of steps that it depends on count, not the plan's other run.
    assert [record.name for record in behind([str(plan / "good-1.trec")])] == ["pairs", "harp", "good"]
    assert "3 min in 3 steps; 150 tokens trained on; 3.0 GB of memory in the largest process." in text
    assert "Trained on: pairs" in text and "RQP accuracy" in text and "question 0" in text
    with pytest.raises(InputError, match="has no finished table absent; it has table"):
        command("report", plan, step="absent", output=plan / "report.html")


@pytest.mark.parametrize("recorded", ["report", "evaluate"])
def test_options_change_what_the_plan_recorded_and_its_files_stay(plan, runs, capsys, recorded):
    if recorded == "report":
        words = f"report --run=bm25={runs}/bm25.trec --run=good={plan}/good-1.trec --qrels={runs}/qrels.txt"
        words += f" --chance=bm25 --remark=before --output={plan}/page-1/report.html"
        words += f" --markdown={plan}/page-1/report.md --text={plan}/page-1/text"
        (plan / "page-1").mkdir()
        record = {"name": "page", "command": f"python -m harp_jax {words}", "seconds": 1.0}
        (plan / ".plan" / "page-1.json").write_text(json.dumps(record))
    step = {"step": "page" if recorded == "report" else "table", "output": runs / "new.html"}
    given = {"focus": "bm25", "measures": "AP", "baseline": "good", "remark": "hello", "docs": runs / "queries.tsv"}
    command("report", plan, **step, **given)
    printed = capsys.readouterr().out
    text = Strict((runs / "new.html").read_text()).text
    assert all(part in printed for part in ("bm25 is at chance level", "AP 0.333", "differs from good", "hello"))
    assert "RR@10" not in printed and "hello" in text and "before" not in text and "text of 0a" not in text
    assert not list(plan.glob("page-1/*"))  # changed files would mean that the step is not done
    with pytest.raises(InputError, match="no run is named 'ours' for --baseline"):
        command("report", plan, **step, baseline="ours")


def test_texts_in_markdown_read_as_they_stand():
    assert render.markdown("- a\n*b* <c> 1. d") == "\\- a \\*b\\* \\<c\\> 1. d"
    assert render.markdown("1. d") == "1\\. d" and render.markdown("+1 | `x`") == "\\+1 \\| \\`x\\`"
