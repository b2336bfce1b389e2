"""The report: the table of `evaluate`, curves from metrics, and a page that needs nothing else."""

import json
import re

import pytest

from harp_jax.commands.evaluate import named
from harp_jax.commands.report import arguments_parser, main
from harp_jax.errors import InputError
from harp_jax.experiments.report import curves_svg


def test_page_holds_table_and_curves_and_fetches_nothing(tmp_path, capsys):
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n2 0 b 1\n")
    (tmp_path / "run.trec").write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 1.0 x\n2 Q0 a 1 2.0 x\n2 Q0 b 2 1.0 x\n")
    workdir = tmp_path / "workdir"
    workdir.mkdir()
    rows = [{"step": s, "split": "train", "loss": 5.0 - s, "mlm_loss": 4.0} for s in (1, 2, 3)]
    rows += [{"step": 3, "split": "validation", "rqp_accuracy": 0.75, "mlm_loss": 4.5}]
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "report.html"
    options = [f"--qrels={tmp_path}/qrels.txt", f"--run=<A & B>={tmp_path}/run.trec", f"--curves=mine={workdir}"]
    main(arguments_parser().parse_args([*options, "--measures=RR@10", f"--output={page}", "--remark=as measured"]))
    printed = capsys.readouterr().out
    assert "not above chance" not in printed
    assert "0.7500" in printed and "as measured" in printed and str(page) in printed
    text = page.read_text()
    assert "&lt;A &amp; B&gt;" in text and "0.7500" in text and text.count("<svg") == 1
    assert not re.search(r"(src|href)=\"https?:", text.replace("http://www.w3.org", ""))


def test_wrong_options_are_named():
    with pytest.raises(InputError, match="write NAME=PATH"):
        named(["run.trec"], "run")
    with pytest.raises(InputError, match="a is given twice"):
        named(["a=1", "a=2"], "run")


def test_curves_of_a_directory_without_metrics_are_refused(tmp_path):
    for empty in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="the curves of mine: .* has no metrics; name a training workdir"):
            curves_svg({"mine": str(empty)})


def test_the_page_calls_a_run_that_is_not_above_chance_that(tmp_path):
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 a{i} 1\n" for i in range(20)))
    rows = [f"{i} Q0 {d}{i} {r} {-r} x\n" for i in range(20) for r, d in enumerate("ab" if i % 2 else "ba", 1)]
    (tmp_path / "run.trec").write_text("".join(rows))
    given = [f"--qrels={tmp_path}/qrels.txt", f"--run=mine={tmp_path}/run.trec", f"--output={tmp_path}/report.html"]
    main(arguments_parser().parse_args([*given, "--measures=RR@10", "--chance=mine"]))
    page = (tmp_path / "report.html").read_text()
    assert "<td>0.7500</td><td>not above chance</td>" in page and "<td>chance</td><td>0.7" in page
