"""`harp site`: reads, embeds and tests; updates what changed; too little input ends with advice; the budget of training."""

import contextlib
import io
import json
import os
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import harp_jax as hj
from harp_jax.base import steps
from harp_jax.base.errors import InputError
from harp_jax.base.files import listed_sums
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.commands.site import arguments_parser, options_of
from harp_jax.config import read_config
from harp_jax.serving.server import RequestError, reranked
from harp_jax.serving.session import SearchSession, Sources
from harp_jax.site import build as site
from harp_jax.site import pages as reading
from harp_jax.site import ranker
from harp_jax.site.build import build, choose_encoder, known_words
from harp_jax.site.options import SiteOptions, Source, Training
from harp_jax.site.pages import Read
from harp_jax.site.search import CombinedSearch, Settings
from harp_jax.text.languages import function_words
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from harp_jax.training.linear_map import MapOptions
from tests.support import site_pages
from tests.support.commands import command
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer


@pytest.fixture(scope="module", autouse=True)
def in_this_process():
    """Steps run here: the processes are tested in tests/base, and end to end in tests/real. The small encoder knows English."""
    config = Source.config

    def of_one_worker(source):
        job = config(source)
        job.workers = 1  # a second one only has to start
        return job

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "config", of_one_worker)
        patch.setattr(steps, "in_process", lambda function, log="": function)
        patch.setattr(site, "known_words", lambda encoder, language: float(language == "en"))
        patch.setattr(site, "SAMPLE", 4)
        yield


def copied(built, folder: Path) -> tuple[Path, SiteOptions, str]:
    """The pages, and options and output of the site, all copied, to change them."""
    pages, output = shutil.copytree(built.pages, folder / "pages"), shutil.copytree(built.output, folder / "x")
    return pages, replace(built.options, source=replace(built.options.source, pages=(str(pages),))), str(output)


@pytest.fixture(scope="module")
def built(in_this_process, tmp_path_factory):
    """A site of 150 pages, with vectors of a small sentence encoder that has all of their words; `said`: what was printed."""
    place = tmp_path_factory.mktemp("built")
    pages, encoder, output = site_pages.write(place / "pages", pages=150), str(place / "encoder"), str(place / "x")
    words = {word for page in pages.iterdir() for word in re.findall(r"[a-z0-9]+|[.,]", page.read_text().lower())}
    tokenizer = Tokenizer.of_words((*SPECIAL_TOKENS, *sorted(words)))
    config = replace(CONFIG, vocab_size=tokenizer.size)
    save_hf(encoder, config, random_params(config), tokenizer, "")
    os.remove(f"{encoder}/SHA256SUMS")  # as others write it
    os.mkdir(f"{encoder}/1_Pooling")
    Path(encoder, "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    stored = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    Path(encoder, "modules.json").write_text(json.dumps(stored))
    options = SiteOptions(Source((str(pages),), base_url="https://x.org/"), encoder, depth=5, max_queries=80)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        result = build(options, output)
    return SimpleNamespace(
        pages=pages, encoder=encoder, output=output, options=options, result=result, said=said.getvalue()
    )


def test_pages_are_searched_and_tested(built):
    said, verdict, output = built.said, built.result.verdict, Path(built.output)
    assert "150 documents (html)" in said and "Embeds 150 texts and tests, about " in said and "ready at about" in said
    assert verdict.queries >= 50 and verdict.test == "anchors" and "in-links" not in verdict.weights
    # The table, the verdict and the report have the same comparison.
    rows = {row.system: row for row in verdict.rows}
    assert [*rows] == ["BM25", "anchor texts (BM25F)", "in-links", "vectors", "recommended"]
    assert f"{rows['recommended'].change:+.3f}" in (output / "report.html").read_text()
    saved = json.loads((output / "verdict.json").read_text())
    assert saved["words"] == verdict.words() and saved["weights"] == verdict.weights and saved["line"] == verdict.line()
    assert verdict.next.startswith("judge 30 queries of your own in harp look")
    assert "Use: " in (output / "README.md").read_text()


def test_changed_pages_are_updated_and_the_folder_may_be_copied(built, tmp_path, capsys):
    """The copy has neither the encoder that was named nor, in the end, the pages."""
    pages, options, output = copied(built, tmp_path)
    # Repeated: at once, the same. With other options: the difference is named.
    assert replace(build(options, output).verdict, next="") == replace(built.result.verdict, next="")
    assert "Embed the documents · already done" in capsys.readouterr().out
    with pytest.raises(InputError, match="was made with windows=4, now 2; .*--force"):
        build(replace(options, windows=2), output)

    # One page changed, one new, one gone: only new texts are embedded, and the verdict is kept.
    page = "<!doctype html><title>{0}</title><body><h1>{0}</h1><p>{1}, with more of the words that a page needs.</p></body>"
    (pages / "p3.html").write_text(page.format("Page 3", "Of new red gates and of old ones"))
    (pages / "new.html").write_text(page.format("New", "A blue cat ran over the old bridge"))
    (pages / "p149.html").unlink()
    before = os.path.getsize(f"{output}/vectors/vectors.float16")
    assert build(options, output).verdict.rows == built.result.verdict.rows
    assert "1 pages are new, 1 changed, 1 gone" in capsys.readouterr().out
    assert os.path.getsize(f"{output}/vectors/vectors.float16") == before + 2 * 2 * CONFIG.hidden
    assert CombinedSearch(output).search("new red gates", k=1)[0][0] == "https://x.org/p3.html"

    # Copied elsewhere. The encoder has all that transformers would add, and checksums.
    assert listed_sums(f"{output}/encoder").keys() > {"config.json", "tokenizer.json", "model.safetensors"}
    found = CombinedSearch(output).search("water gate")
    shutil.move(output, tmp_path / "elsewhere")
    shutil.rmtree(pages)
    assert CombinedSearch(str(tmp_path / "elsewhere")).search("water gate") == found
    assert not any(os.path.islink(path) for path in (tmp_path / "elsewhere").rglob("*"))


def test_an_encoder_is_adapted_to_the_links_and_the_search_keeps_the_other(built, tmp_path, monkeypatch):
    """From random weights: links must teach it which page an anchor means. A map of so few numbers must move far."""
    monkeypatch.setattr(ranker, "MapOptions", partial(MapOptions, learning_rate=1e-2))
    pages, options, output = copied(built, tmp_path)
    options = replace(options, training=Training("vectors"))
    result = build(options, output)
    before, after = map(float, re.search(r"RR@10 (0\.\d+) → (0\.\d+) \(", result.adapted).groups())
    assert after > before + 0.1 and "anchors, which are what it was trained on" in result.adapted
    adapted = hj.Retriever.from_pretrained(f"{output}/encoder_adapted")
    assert adapted.encode(["a gate"]).shape == (1, CONFIG.hidden)
    assert CombinedSearch(output).settings.encoder == "encoder" and result.ranker == ""

    # After a page has changed, the encoder is kept, like the test.
    (pages / "p3.html").write_text((pages / "p3.html").read_text().replace("</body>", "<p>More.</p></body>"))
    assert build(options, output).adapted == result.adapted


@pytest.mark.parametrize("embeds", [False, True])
def test_too_few_links_leave_an_untested_search(tmp_path, capsys, built, embeds):
    pages, output = site_pages.write(tmp_path / "pages", pages=6), tmp_path / "x"
    command("site", pages, "--base_url=https://x.org/", encoder=built.encoder if embeds else "none", output=output)
    said, verdict = capsys.readouterr().out, json.loads((output / "verdict.json").read_text())
    weights = {"anchor texts (BM25F)": 1.0, "vectors": 2.0} if embeds else {"BM25": 1.0}
    assert verdict["weights"] == weights and "Gain: not measured: too few links (" in verdict["words"]
    assert verdict["words"] in said and not (output / "report.html").exists()
    session = SearchSession(Sources(str(output)))
    assert session.combined.settings.parameters == reading.PARAMETERS
    results = session.search(" ".join(site_pages.own_words(3)))["results"]
    best = max(results, key=lambda hit: hit["parts"]["BM25"])
    assert best["id"] == "https://x.org/p3.html" and ("vectors" in best["parts"]) == embeds
    asked = {"query": "a", "documents": ["b", "a cat"]}
    if embeds:  # by its cosines
        assert all(0 <= hit["relevance_score"] <= 1 for hit in reranked(session, asked)["results"])
    else:
        with pytest.raises(RequestError, match="no encoder and no ranker"):
            reranked(session, asked)


def test_a_sentence_encoder_that_knows_the_language_is_trusted(built, tmp_path, capsys):
    """Without a test, another one is left out."""
    save_hf(str(tmp_path / "plain"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    options, read = SiteOptions(Source(("a",)), built.encoder), Read(6, "en", "html", 5, 0, "too few links", "", "")
    assert choose_encoder(options, read, "") == (built.encoder, "", True)
    for encoder, language, said in (
        (built.encoder, "de", "has 0.00 of the function words of de"),
        (str(tmp_path / "plain"), "en", "is not a sentence encoder"),
    ):
        given, known = replace(options, encoder=encoder), replace(read, language=language)
        used, advice, trusted = choose_encoder(given, known, "")
        assert (used, trusted) == ("", False) and advice.startswith("name a") and said in capsys.readouterr().out
        assert choose_encoder(given, replace(known, shortage=""), "")[::2] == (encoder, False)


def test_labels_decide_and_other_labels_or_a_first_encoder_are_tested_again(tmp_path, built, capsys):
    folder, output = site_pages.write(tmp_path / "pages", pages=40), str(tmp_path / "x")
    options = SiteOptions(Source((str(folder),), base_url="https://x.org/"), "none", depth=3)
    rows = [(" ".join(site_pages.own_words(n)[:2]), f"https://x.org/p{n}.html") for n in range(24)]

    def by_labels(count):
        labels = [f"{text}\t{docid}\t1\n" for text, docid in rows[:count]]
        (tmp_path / "labels.tsv").write_text("".join(labels) + "lost\thttps://x.org/no.html\t1\n")
        return build(replace(options, labels=str(tmp_path / "labels.tsv")), output).verdict

    first = by_labels(22)
    assert (first.queries, first.test, len(first.rows)) == (22, "labels", 4)  # BM25, two parts, and the sum
    assert "1 judged documents are not in the site" in capsys.readouterr().out
    own = {"BM25": 1.0, "in-links": 0.3}
    replace(Settings.load(output), weights=own, tuned="RR@10").save(output)
    assert by_labels(24).queries == 24 and Settings.load(output).weights == own
    assert "keeps the weights of harp tune: BM25 + 0.3 × in-links" in capsys.readouterr().out

    # The same judgments by ids, and one more part: the weights of `harp tune` are replaced.
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{text}\n" for n, (text, _) in enumerate(rows)))
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 {docid} 1\n" for n, (_, docid) in enumerate(rows)))
    by_ids = {"labels": str(tmp_path / "qrels"), "queries": str(tmp_path / "queries.tsv")}
    again = build(replace(options, encoder=built.encoder, **by_ids), output).verdict
    assert (again.queries, len(again.rows)) == (24, 5) and Settings.load(output).weights == again.weights
    assert "the weights of harp tune are replaced" in capsys.readouterr().out


def test_an_encoder_knows_english_by_its_function_words(tmp_path):
    words = sorted(function_words("en"))
    known = [word for word in words if word.isalpha()][::2]
    Tokenizer.of_words((*SPECIAL_TOKENS, *known)).save(str(tmp_path))
    assert known_words(str(tmp_path), "en") == len(known) / len(words) > 0.4
    assert known_words(str(tmp_path), "de") < 0.1 and known_words(str(tmp_path), "xx") == 0.0


def test_a_site_in_japanese(tmp_path, capfd):
    """Queries are words inside a sentence without spaces, one of a single letter."""
    (tmp_path / "pages").mkdir()
    for number, place in enumerate("木水火土金石"):
        text = f"街の{place}門には古い庭が残る。春には{place}門の池に鳥が来る。地図では{place}門は北にある。"
        page = f"<!doctype html><html lang=ja><body><h1>{number}</h1><p>{text}</p><p><a href='p0.html'>木</a></p></body></html>"
        (tmp_path / "pages" / f"p{number}.html").write_text(page)
    command("site", tmp_path / "pages", "--base_url=https://x.org/", "--encoder=none", output=tmp_path / "x")
    assert "language ja (by <html lang>" in capfd.readouterr().out
    search = CombinedSearch(str(tmp_path / "x"))
    for query in ("火", "火門"):
        found = search.scores(query)
        hits = [docid for docid, score in zip(found.docids, found.parts["BM25"]) if score]
        assert hits == ["https://x.org/p2.html"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{pages}", "--train=ranker", "--minutes=0"], "--minutes=0: use a positive number"),
        (["{pages}", "--train=vectors", "--layers=3"], "--layers is only for training; add --train=ranker"),
        (["{pages}", "--encoder=no/such"], "no/such is not a directory; .*hf download no/such"),
        (["{pages}", "--labels={folder}/connected.tsv"], "only 19 queries that share no relevant document, 20 needed"),
        (["{folder}", "--format=html", "--dry_run"], "it is inside the input .*; choose an --output outside"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tmp_path, words, message):
    (tmp_path / "pages.jsonl").write_text('{"id": "a", "title": "Lock", "text": "A gate.", "links": []}\n')
    labels = "".join(f"gate {n}\td{n}\t1\n" for n in range(19))
    (tmp_path / "connected.tsv").write_text(f"{labels}lock\td0\t1\nweir\td20\t0\n")
    given = [word.format(pages=tmp_path / "pages.jsonl", folder=tmp_path) for word in words]
    with pytest.raises(InputError, match=message):
        command("site", *given, output=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_command_line_has_the_defaults_of_the_options():
    parse = lambda *words: options_of(arguments_parser().parse_args(["a", "--output=x", *words]))  # noqa: E731
    assert parse() == SiteOptions(Source(("a",)))
    trained = SiteOptions(Source(("a",), exclude=("*/b/*",)), "s", training=Training("ranker", "s", 3))
    assert parse("--train=ranker", "--start=s", "--layers=3", "--exclude=*/b/*") == trained


def test_the_recipe_is_one_of_equal_lengths():
    """Pairs, training and ranking read the same number of tokens."""
    data, train, tune = (read_config(name) for name in ("data/site", "site", "finetune_site"))
    assert data.max_query_tokens + data.max_doc_tokens == train.row_length == tune.row_length == Training.max_length
    assert data.max_query_tokens == ranker.QUERY_LENGTH and set(train.tasks) <= set(data.tasks)
    longer = ranker.training_config(train, Training(max_length=600), "", "v", "pairs", ("adp",))
    assert longer.row_length == longer.model.max_positions == 600


def test_steps_are_what_fits_and_what_there_is(monkeypatch):
    counts = {("adp", "train"): 3000, ("adp", "validation"): 9, ("qdm", "train"): 200}  # qdm has no held-out pairs
    monkeypatch.setattr(ranker, "records", lambda pairs, task, split: counts.get((task, split), 0))
    assert ranker.usable_tasks("", ("adp", "qdm")) == ("adp",)
    assert ranker.steps_within(10, 2.0, 3200, 32) == 300
    assert ranker.steps_within(1000, 2.0, 3200, 32) == ranker.MAX_EPOCHS * 100
    with pytest.raises(InputError, match="--minutes=0.1: a step takes 2.00 s .*at least 20 are needed"):
        ranker.steps_within(0.1, 2.0, 3200, 32)


def test_release_notes_are_named_with_the_patterns_that_leave_them_out():
    pages = [f"https://x.org/releases/1.{n}.html" for n in range(4)] + ["https://x.org/release-15-1.html"]
    said = reading.to_exclude([*pages, "https://x.org/release.html", "https://x.org/releasing/a.html"])
    assert said.startswith("\n5 pages") and said.endswith("--exclude='*/release-*' --exclude='*/releases/*'")
    assert reading.to_exclude(pages[:4]) == ""
