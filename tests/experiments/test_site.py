"""`harp site`: its plan parses, its budget becomes a fixed number of steps, and too little input ends with advice."""

import importlib.util
import json
import os
from types import SimpleNamespace

import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.commands.table import load
from harp_jax.config import read_config
from harp_jax.experiments import site
from harp_jax.experiments import site_plan as planned
from harp_jax.experiments.site import SiteRun, steps_within, usable_tasks
from harp_jax.experiments.site_plan import PARAMETERS, site_plan
from harp_jax.look.server import RequestError, reranked
from harp_jax.look.shelf import Shelf, Sources, of_site
from harp_jax.text.languages import function_words
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from tests.support import site_pages
from tests.support.commands import command
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "pages.jsonl").write_text('{"id": "a", "title": "Lock", "text": "A gate.", "links": []}\n')
    labels = [f"gate {n}\td{n}\t1\n" for n in range(20)]
    (tmp_path / "labels.tsv").write_text("".join(labels))
    (tmp_path / "connected.tsv").write_text("".join([*labels[:19], "lock\td0\t1\n", "weir\td20\t0\n"]))
    (tmp_path / "malformed.tsv").write_text("gate\ta\t1\nlock\n")
    (tmp_path / "start").mkdir()
    (tmp_path / "embedder" / "1_Pooling").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(start="start", labels="labels.tsv", base_url="https://x.org/", exclude=("*/a/*",), split="pages"),
        {"start": "start", "layers": 3, "windows": 2},
        {"start": "embedder", "layers": 3},
        {"start": "start", "vectors": "embedder"},
        {"max_length": 600},
        {"vectors": "embedder"},
    ],
)
@pytest.mark.parametrize("known", [0.3, 0.8])
def test_every_step_of_the_plan_is_a_command_line_that_parses(pages, monkeypatch, options, known):
    monkeypatch.setattr(planned, "known_words", lambda encoder, language: known)
    monkeypatch.chdir(pages)
    run = SiteRun({"pages": ("pages.jsonl",), **options}, "x")
    prepared, steps = run.steps(tasks=("adp",)), run.steps(50, ("adp",))
    assert all(steps[name] == step for name, step in prepared.items())  # preparation is not repeated
    assert set(site.RESULTS.values()) | (set(site.BY_LABELS.values()) if "labels" in options else set()) <= set(steps)
    encoder = "start" in options or "vectors" in options
    # Only a sentence encoder can teach, and only another encoder.
    assert ("taught" in steps) == ("start" in options and "embedder" in options.values())
    assert ("near" in steps) == ("vectors" in steps) == ("Vectors: 1 MB" in run.dry_run()) == encoder
    assert ("vocabulary" in steps) == ("start" not in options)
    if "layers" in options:  # vectors use the whole start model
        words = {word for step in steps.values() for word in step.argv}
        assert {f"--config.init={steps['start'].place}", f"--encoder={options['start']}"} <= words
    if "max_length" in options:  # positions of an encoder from scratch
        assert (
            "--config.model.max_positions=600"
            in next(step for step in steps.values() if step.command.command == "train").argv
        )
    fused, verdict = steps["recommended"], steps["verdict_labels" if "labels" in options else "verdict"]
    # Only vectors of a sentence encoder that knows the language are trusted.
    embeds = "embedder" in (options.get("vectors"), None if "vectors" in options else options.get("start"))
    assert ("--double=vectors" in verdict.argv) == (embeds and known > planned.KNOWN)
    assert ("--reported=ranker" in verdict.argv) == (embeds and known > planned.KNOWN and "labels" not in options)
    parts = [word for word in verdict.argv if word.startswith("--part=")]
    runs = [word for word in fused.command.arguments if word[0] != "-"]
    assert f"--verdict={verdict.place}" in fused.argv and len(runs) == len(parts)
    assert {"--focus=recommended", f"--run=recommended={fused.place}"} <= {*steps["report"].argv}
    assert f"recommended={fused.place}" in steps["table"].argv
    assert all(step.command.logged == (step.command.command == "verdict") for step in steps.values())
    for step in steps.values():
        words = step.argv[step.argv.index(step.command.command) + 1 :]
        load(step.command.command)[1].parse_args(words)


def test_an_encoder_knows_english_by_its_function_words(tmp_path):
    words = sorted(function_words("en"))
    known = [word for word in words if word.isalpha()][::2]
    Tokenizer.of_words((*SPECIAL_TOKENS, *known)).save(str(tmp_path))
    assert planned.known_words(str(tmp_path), "en") == len(known) / len(words) > 0.4
    assert planned.known_words(str(tmp_path), "de") < 0.1 and planned.known_words(str(tmp_path), "xx") == 0.0


def test_the_recipe_is_one_of_equal_lengths(monkeypatch):
    """Pairs, training and ranking read the same number of tokens."""
    monkeypatch.setattr(planned, "known_words", lambda encoder, language: 1.0)
    data, train, tune = (read_config(name) for name in ("data/site", "site", "finetune_site"))
    assert data.max_query_tokens + data.max_doc_tokens <= train.row_length == tune.row_length
    plan = site_plan(pages=("x",), format="html", steps=1)
    assert all(f"--max_length={train.row_length}" in c.arguments for c in plan if c.name == "run_ranker")
    assert set(train.tasks) <= set(data.tasks)
    longer = site_plan(pages=("x",), format="html", steps=1, start="x", labels="y", max_length=256)
    words = {word for c in longer for word in c.arguments if "_length" in word or "max_doc_tokens" in word}
    documents = f"--config.max_doc_tokens={256 - data.max_query_tokens}"
    assert words == {documents, "--config.row_length=256", "--max_length=256"}


@pytest.mark.real
def test_too_few_pairs_leave_an_untested_search(tmp_path, monkeypatch):
    for name, least in {"MIN_LINKS": 1, "MIN_QUERIES": 1, "MIN_PAIRS": 1_000_000}.items():
        monkeypatch.setattr(site, name, least)
    pages = site_pages.write(tmp_path / "pages", pages=30)
    command("site", pages, "--base_url=https://x.org/", output=tmp_path / "x")
    verdict = json.loads((tmp_path / "x" / "verdict.json").read_text())
    assert "Untested: too few training pairs (adp " in verdict["words"] and verdict["use"] == "BM25"


@pytest.mark.parametrize("start", ["", "embedder", "start"])
def test_too_few_links_leave_an_untested_search(tmp_path, capsys, monkeypatch, start):
    monkeypatch.setattr(site, "known_words", lambda encoder, language: float(language == "en"))
    monkeypatch.setattr(site, "WINDOW_BYTES", 10)
    pages, output, encoder = site_pages.write(tmp_path / "pages", pages=6), tmp_path / "x", tmp_path / (start or "none")
    given, weights = [pages, "--base_url=https://x.org/"], {"BM25": 1.0}
    if start:
        save_hf(str(encoder), CONFIG, random_params(CONFIG), small_tokenizer(), "")
        given.append(f"--start={encoder}")
    if start == "embedder":  # a sentence encoder
        (encoder / "1_Pooling").mkdir()
        (encoder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        weights = {"anchor texts (BM25F)": 1.0, "vectors": 2.0}
    output.mkdir()
    for name in ("report.html", "ranker"):  # from an earlier run
        (output / name).symlink_to("gone")
    command("site", *given, output=output)
    said, verdict = capsys.readouterr().out, json.loads((output / "verdict.json").read_text())
    use = "anchor texts (BM25F) + 2 × vectors" if start == "embedder" else "BM25"
    assert verdict["use"] == use and verdict["weights"] == weights
    assert verdict["words"].startswith("Untested: too few links (") and verdict["words"] in said
    assert "4 windows hold about" in said and ("is no sentence encoder" in said) == (start == "start")
    recorded = [json.loads((output / name).read_text())["parameters"] for name in ("search.json", "bm25f.json")]
    assert recorded == [PARAMETERS, PARAMETERS["bm25f"]]
    assert not any(os.path.lexists(output / name) for name in ("report.html", "ranker"))
    command("site", *given, "--language=de", output=tmp_path / "german")
    assert ("has 0.00 of the function words of de" in capsys.readouterr().out) == (start == "embedder")
    assert json.loads((tmp_path / "german" / "verdict.json").read_text())["use"] == "BM25"
    (tmp_path / "queries.tsv").write_text(f"q\t{' '.join(site_pages.own_words(3))}\n")
    command("search", output, queries=tmp_path / "queries.tsv", output=tmp_path / "runs")
    assert (tmp_path / "runs" / "bm25.trec").read_text().split()[2] == "https://x.org/p3.html"
    assert (tmp_path / "runs" / "vectors.trec").exists() == (start == "embedder")
    shelf = Shelf(of_site(str(output), Sources(fields=("title", "body"))))
    names = [ranking["name"] for ranking in shelf.search("water gate")["rankings"]]
    assert names == ["BM25", "Recommended", *(["Vectors"] if "vectors" in weights else [])]
    with pytest.raises(RequestError, match="no ranker"):
        reranked(shelf, {"query": "a", "documents": ["b"]})


PLACES = ["Köln", "Bonn", "Jena", "Gera", "Trier", "Mainz"]


@pytest.mark.parametrize(
    ("language", "sentence", "places", "queries"),
    [
        ("de", "In {0} steht ein Haus. Bäume wachsen in {0} am Fluss. Viele Wege führen nach {0}.", PLACES, ("häuser JENA",)),
        ("ja", "街の{0}門には古い庭が残る。春には{0}門の池に鳥が来る。地図では{0}門は北にある。", "木水火土金石", ("火", "火門")),
    ],
)  # fmt: skip
def test_a_site_in_another_language(tmp_path, capfd, language, sentence, places, queries):
    """Queries: a stem, and words inside a sentence without spaces, one of a single letter."""
    (tmp_path / "pages").mkdir()
    for number, place in enumerate(places):
        text = f"<h1>{number}</h1><p>{sentence.format(place)}</p><p><a href='p0.html'>{places[0]}</a></p>"
        page = f"<!doctype html><html lang={language}><title>{number}</title><body>{text}</body></html>"
        (tmp_path / "pages" / f"p{number}.html").write_text(page)
    command("site", tmp_path / "pages", "--base_url=https://x.org/", output=tmp_path / "x")
    said = capfd.readouterr().out
    assert "Untested: too few links (" in said and f"language {language} (by <html lang>" in said
    for query in queries:
        (tmp_path / "queries.tsv").write_text(f"q\t{query}\n")
        command("search", tmp_path / "x", queries=tmp_path / "queries.tsv", output=tmp_path / "runs")
        hits = [line.split()[2] for line in (tmp_path / "runs" / "bm25.trec").read_text().splitlines()]
        assert hits[0] == "https://x.org/p2.html" and (language == "de" or len(hits) == 1)


def write_pairs(folder, **records):
    """A manifest of a generation job with so many records in each split."""
    splits = {name: {"records": n, "shards": []} for name, n in records.items()}
    (folder / "manifest.json").write_text(json.dumps({"splits": splits, "tokenizer_sha256": "0"}))


def test_a_rate_is_measured_again_until_its_training_has_begun(pages):
    run = SiteRun({"pages": (str(pages / "pages.jsonl"),)}, str(pages / "x"), minutes=1)
    write_pairs(pages, adp_train=3000)
    (pages / "rate.json").write_text('{"seconds_per_step": 1.0}')
    rate, pairs = SimpleNamespace(place=str(pages / "rate.json")), SimpleNamespace(place=str(pages))
    assert not run.begun(rate, pairs, ("adp",))
    (pages / "x" / os.path.basename(run.steps(60, ("adp",))["harp"].place)).mkdir(parents=True)
    assert run.begun(rate, pairs, ("adp",))
    (pages / "rate.json").write_text('{"seconds_per_step": 12.0}')  # too slow to train: the machine was busy
    assert not run.begun(rate, pairs, ("adp",))


def test_steps_are_what_fits_and_what_there_is(tmp_path):
    write_pairs(tmp_path, adp_train=3000, qdm_train=200, adp_validation=9)
    tasks = ("adp", "qdm")
    assert steps_within(10, 2.0, str(tmp_path), tasks, 32) == 300
    assert steps_within(1000, 2.0, str(tmp_path), tasks, 32) == site.MAX_EPOCHS * 100
    assert usable_tasks(str(tmp_path), tasks) == ("adp",)  # qdm has no held-out pairs
    with pytest.raises(InputError, match="--minutes=0.1: a step takes 2.00 s .*at least 20 are needed"):
        steps_within(0.1, 2.0, str(tmp_path), tasks, 32)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{pages}"], "ranker is not a link from an earlier run and would be lost; move it"),
        (["{pages}", "--minutes=0"], "--minutes=0: use a positive number"),
        (["{pages}", "--base_url=https://x.org/{{y}}/"], "step survey has {y} in its arguments"),
        (["{pages}", "--labels={folder}/connected.tsv"], "only 19 queries that share no relevant document, 20 needed"),
        (["{pages}", "--labels={folder}/malformed.tsv"], "malformed.tsv, line 2: "),
        (["{folder}", "--format=html", "--dry_run"], "it is inside the input .*; choose an --output outside"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(pages, words, message):
    if message.startswith("ranker"):
        (pages / "x" / "ranker").mkdir(parents=True)
    given = [word.format(pages=pages / "pages.jsonl", folder=pages) for word in words]
    with pytest.raises(InputError, match=message):
        command("site", *given, output=pages / "x")
    assert [path.name for path in pages.glob("x/*")] == (["ranker"] if message.startswith("ranker") else [])


@pytest.mark.parametrize(
    ("package", "extra", "pages", "content"),
    [("ir_measures", "demo", "a.jsonl", '{"id": "a", "text": "A gate."}'), ("fastwarc", "web", "a.warc", "WARC/1.0")],
)
def test_a_missing_extra_is_said_by_the_dry_run(tmp_path, monkeypatch, package, extra, pages, content):
    (tmp_path / pages).write_text(content)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else found(name, *a))
    with pytest.raises(InputError, match=rf"needs the package {package}; .*pip install '\.\[{extra}\]'"):
        command("site", tmp_path / pages, "--dry_run", output=tmp_path / "x")


def test_the_library_warns_of_a_ranker_that_the_verdict_leaves_out(pages, monkeypatch):
    import harp_jax as hj

    save_hf(str(pages / "x" / "ranker_not_used"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    monkeypatch.setattr(SiteRun, "run", lambda run: {"words": "use BM25 alone."})
    of_pages = hj.Site("", {"pages": (str(pages / "pages.jsonl"),)})
    with pytest.warns(UserWarning, match=r"the verdict leaves this ranker out\. use BM25 alone\."):
        hj.Reranker.pretrain(of_pages, str(pages / "x"))
