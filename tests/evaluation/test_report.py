"""The report: verdict, table, curves, wins and losses, as a self-contained page."""

import json
import math
import re
from html import unescape

import pytest

from harp_jax.base.errors import InputError
from harp_jax.evaluation.report import Evaluation, Page, report_files

QUERIES = 20
HOSTILE = "</style><script>alert(1)</script> & <b>|`*_#"


def text_of(page: str) -> str:
    """The text of a page, without tags and style."""
    return " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)).split())


@pytest.fixture
def runs(tmp_path):
    """Judgments, a first stage, a better and a worse ranker, one at chance, and texts."""
    qids, docs = range(QUERIES), "abcdef"
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 {i}a 1\n" for i in qids))
    (tmp_path / "queries.tsv").write_text("".join(f"{i}\tquestion {i} {HOSTILE}\n" for i in qids))
    (tmp_path / "docs.tsv").write_text("".join(f"{i}{d}\ttext of {i}{d} {HOSTILE}\n" for i in qids for d in docs))
    ranks = {"bm25": lambda i: 2, "good": lambda i: i % 2, "bad": lambda i: 4, "luck": lambda i: i % 6}
    for name, rank_of in ranks.items():
        orders = {i: f"{'bcdef'[: rank_of(i)]}a{'bcdef'[rank_of(i) :]}" for i in qids}
        lines = [f"{i} Q0 {i}{d} {rank} {-rank} x\n" for i in qids for rank, d in enumerate(orders[i], 1)]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    return tmp_path


def evaluation(folder, *names, **options) -> Evaluation:
    """The fixture's runs by name, or as (name, file)."""
    files = dict((name, name) if isinstance(name, str) else name for name in names)
    runs = {name: [f"{folder}/{file}.trec"] for name, file in files.items()}
    return Evaluation(f"{folder}/qrels.txt", runs, measures="RR@10 nDCG@10", **options)


def written(folder, options: Evaluation, page: Page | None = None) -> tuple[str, str]:
    """(HTML, printed text) of a report of the fixture's runs."""
    html, text = folder / "report.html", folder / "report.txt"
    report_files(options, page or Page(), str(html), str(text))
    return html.read_text(), text.read_text()


def test_the_page_says_everything_and_fetches_nothing(runs):
    rows = [{"step": s, "split": "train", "loss": 5.0 - s, "mlm_loss": 4.0, "tokens": 50.0} for s in (1, 2, 3)]
    rows += [{"step": s, "split": "validation", "rqp_accuracy": a} for s, a in ((0, 0.5), (2, 0.6), (3, 0.75))]
    rows += [{"step": 3, "split": "validation", "mlm_loss": math.nan}]
    (runs / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curves = {"mine": str(runs)}
    page = Page(HOSTILE, "", ("as measured",), curves, f"{runs}/docs.tsv", ("body",), f"{runs}/queries.tsv")
    html, text = written(runs, evaluation(runs, "bm25", ("<A & B>", "good"), chance="bm25"), page)
    said = text_of(html)
    for part in ("<A & B> ranks better than bm25.", "0.7500", "0.3333", "text of 0a", HOSTILE, "rank 3 → 1"):
        assert part in said
    assert "better than bm25 on 20, worse on 0" in said
    assert all(part in text for part in ("0.7500", "as measured", "better"))
    # Data is never markup, and the page loads nothing.
    assert html.count(HOSTILE) == 0 and not re.search(r"<(script|link|img|iframe)|(src|href|url)\s*[=(]", html)
    assert "mine from 0.5 at step 0 to 0.75 at step 3; chance is 0.5." in html
    assert "nan" not in html.lower()  # a loss that is not a number is not drawn


def test_verdicts_worse_undecided_and_blank(runs):
    pages = {
        "bad ranks worse than bm25.": evaluation(runs, "bm25", "bad"),
        f"{QUERIES} queries do not decide whether luck ranks better than bm25.": evaluation(runs, "bm25", "luck"),
        "good does not read the query: it ranks no better than with the query blanked.": evaluation(
            runs, "bm25", "good", ("blanked", "good"), blank={"good": "blanked"}
        ),
    }
    for said, options in pages.items():
        html, _ = written(runs, options)
        assert said in text_of(html)
    assert "documents scored without the query" in text_of(html)
    html, said = written(runs, evaluation(runs, "bm25", "luck", "good", chance="bm25"))
    for text in (text_of(html).split("Systems by")[0], said):
        assert "luck is at chance level: it orders its candidates no better than a random order. RR@10" in text
    with pytest.raises(InputError, match="the curves of mine: .* has no metrics; name a training"):
        written(runs, evaluation(runs, "bm25"), Page(curves={"mine": f"{runs}/absent"}))
