"""Progress in a log: plain lines, with rates of only this run's work."""

import re

from harp_jax.base.progress import progress, shown, stage


def test_a_log_has_whole_lines(capsys):
    for _ in progress(range(3), total=3, unit="documents", desc="index"):
        pass
    with progress(total=5, unit="pairs", desc="rerank") as bar:
        bar.update(2)
        bar.set_postfix(loss="0.5", refresh=False)
    text = capsys.readouterr().err
    assert "\r" not in text and "" not in text.split("\n")[:-1]
    index, rerank = text.splitlines()
    assert index.startswith("index: 3/3 [") and rerank.startswith("rerank: 2/5 [") and rerank.endswith("loss=0.5]")


def test_what_was_done_before_is_counted_and_not_in_the_rate():
    with progress(total=2000, initial=500, unit="parts", desc="links") as bar:
        bar.skip(400)
        bar.update(100)
        bar.start_t -= 10
        text = str(bar)
    assert re.match(r"links: 1000/2000 \[00:10<01:40,  ?(9|10)\.", text)


def test_a_bar_over_stages_shows_how_far_the_stage_is(capsys):
    """For `harp generate`: else fifteen bars, one after the other."""
    with progress(total=3, unit="stages") as bar:
        stage("links")
        for _ in progress(range(2), unit="parts", desc="inner"):
            pass
        stage("join")
        assert bar.postfix == ""
        stage("pairs")
        with progress(total=12, unit="parts") as inner:
            inner.set_postfix_str("40 rows", refresh=False)
            inner.update(3)
            with progress(total=2, desc="innermost") as innermost:
                innermost.skip()
            inner.refresh()
            assert capsys.readouterr().err == ""
            bar.last_print_t -= 10
            inner.refresh()
            assert capsys.readouterr().err == "pairs: 3/3 stages [00:00, 3/12 parts, 00:00 left, 40 rows]\n"
    assert capsys.readouterr().err == "" and not shown()
