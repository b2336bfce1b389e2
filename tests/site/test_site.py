"""`harp site`: reads, embeds and tests; updates what changed; too little input ends with advice; the budget of training."""

import json
import os
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import harp_jax as hj
from harp_jax.base import steps
from harp_jax.base.errors import InputError
from harp_jax.base.files import listed_sums
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.config import read_config
from harp_jax.site import build as site
from harp_jax.site import ranker
from harp_jax.site.build import build, choose_encoder, known_words
from harp_jax.site.options import SiteOptions, Source, Training
from harp_jax.site.pages import PARAMETERS, Read
from harp_jax.site.search import CombinedSearch, Settings
from harp_jax.text.languages import function_words
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from harp_jax.training.linear_map import MapOptions
from tests.support import site_pages
from tests.support.commands import command
from tests.support.tiny_bert import CONFIG, save_encoder, small_tokenizer


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
    """A site of 150 pages, with vectors of a small sentence encoder that has all of their words."""
    place = tmp_path_factory.mktemp("built")
    pages, encoder, output = site_pages.write(place / "pages", pages=150), str(place / "encoder"), str(place / "x")
    words = {word for page in pages.iterdir() for word in re.findall(r"[a-z0-9]+|[.,]", page.read_text().lower())}
    save_encoder(encoder, Tokenizer.of_words((*SPECIAL_TOKENS, *sorted(words))), 40, Embedding("mean", max_length=40))
    os.remove(f"{encoder}/SHA256SUMS")  # as others write it
    options = SiteOptions(Source((str(pages),), base_url="https://x.org/"), encoder, depth=5, max_queries=80)
    return SimpleNamespace(pages=pages, encoder=encoder, output=output, options=options, result=build(options, output))


def test_pages_are_searched_and_tested(built):
    verdict, output = built.result.verdict, Path(built.output)
    assert verdict.queries >= 50 and verdict.test == "anchors" and "in-links" not in verdict.weights
    # The table, the verdict and the report have the same comparison.
    rows = {row.system: row for row in verdict.rows}
    assert [*rows] == ["BM25", "anchor texts (BM25F)", "in-links", "vectors", "recommended"]
    assert f"{rows['recommended'].change:+.3f}" in (output / "report.html").read_text()
    saved = json.loads((output / "verdict.json").read_text())
    assert saved["words"] == verdict.words() and saved["weights"] == verdict.weights and saved["line"] == verdict.line()


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

    # Trained anew, it is tested anew.
    shutil.rmtree(f"{output}/encoder_adapted")
    monkeypatch.setattr(ranker, "MapOptions", partial(MapOptions, learning_rate=1e-9))
    result = build(options, output)
    assert f"RR@10 {before:.3f} → {before:.3f} (" in result.adapted

    # After a page has changed, the encoder is kept, like the test.
    (pages / "p3.html").write_text((pages / "p3.html").read_text().replace("</body>", "<p>More.</p></body>"))
    assert build(options, output).adapted == result.adapted


def test_too_few_links_leave_an_untested_search(tmp_path, capsys, built):
    pages, output = site_pages.write(tmp_path / "pages", pages=6), tmp_path / "x"
    command("site", pages, "--base_url=https://x.org/", encoder=built.encoder, output=output)
    verdict = json.loads((output / "verdict.json").read_text())
    assert verdict["weights"] == {"anchor texts (BM25F)": 1.0, "vectors": 2.0}
    assert "Gain: not measured: too few links (" in verdict["words"] and verdict["words"] in capsys.readouterr().out
    search = CombinedSearch(str(output))
    scores = search.scores(" ".join(site_pages.own_words(3)))
    assert scores.docids[int(np.argmax(scores.parts["BM25"]))] == "https://x.org/p3.html"
    assert search.settings.parameters == PARAMETERS and not (output / "report.html").exists()


def test_without_a_test_only_a_sentence_encoder_that_knows_the_language_is_used(built, tmp_path):
    save_encoder(str(tmp_path / "plain"), small_tokenizer(), 40)
    options, read = SiteOptions(Source(("a",)), built.encoder), Read(6, "en", "html", 5, 0, "too few links", "", "")
    assert choose_encoder(options, read, "") == (built.encoder, "", True)
    for encoder, language in ((built.encoder, "de"), (str(tmp_path / "plain"), "en")):
        given, known = replace(options, encoder=encoder), replace(read, language=language)
        assert choose_encoder(given, known, "")[::2] == ("", False)
        assert choose_encoder(given, replace(known, shortage=""), "")[::2] == (encoder, False)


def test_labels_decide_and_other_labels_or_a_first_encoder_are_tested_again(tmp_path, built):
    folder, output = site_pages.write(tmp_path / "pages", pages=40), str(tmp_path / "x")
    options = SiteOptions(Source((str(folder),), base_url="https://x.org/"), "none", depth=3)

    def by_labels(count):
        labels = [f"{' '.join(site_pages.own_words(n)[:2])}\thttps://x.org/p{n}.html\t1\n" for n in range(count)]
        (tmp_path / "labels.tsv").write_text("".join(labels) + "lost\thttps://x.org/no.html\t1\n")
        return build(replace(options, labels=str(tmp_path / "labels.tsv")), output).verdict

    first = by_labels(22)
    assert (first.queries, first.test, len(first.rows)) == (22, "labels", 4)  # BM25, two parts, and the sum
    own = {"BM25": 1.0, "in-links": 0.3}
    replace(Settings.load(output), weights=own, tuned="RR@10").save(output)
    assert by_labels(24).queries == 24 and Settings.load(output).weights == own

    # With one more part the weights of `harp tune` are replaced.
    options = replace(options, encoder=built.encoder)
    again = by_labels(24)
    assert (again.queries, len(again.rows)) == (24, 5) and Settings.load(output).weights == again.weights


def test_an_encoder_knows_english_by_its_function_words(tmp_path):
    words = sorted(function_words("en"))
    known = [word for word in words if word.isalpha()][::2]
    Tokenizer.of_words((*SPECIAL_TOKENS, *known)).save(str(tmp_path))
    assert known_words(str(tmp_path), "en") == len(known) / len(words) > 0.4
    assert known_words(str(tmp_path), "de") < 0.1 and known_words(str(tmp_path), "xx") == 0.0


def test_few_labels_are_refused_before_anything_runs(tmp_path):
    labels = "".join(f"gate {n}\td{n}\t1\n" for n in range(19))
    (tmp_path / "labels.tsv").write_text(f"{labels}lock\td0\t1\nweir\td20\t0\n")
    options = SiteOptions(Source(("pages",)), "none", labels=str(tmp_path / "labels.tsv"))
    with pytest.raises(InputError, match="only 19 queries that share no relevant document, 20 needed"):
        build(options, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_pairs_training_and_ranking_read_the_same_number_of_tokens():
    data, train, tune = (read_config(name) for name in ("data/site", "site", "finetune_site"))
    assert data.max_query_tokens + data.max_doc_tokens == train.row_length == tune.row_length == Training.max_length
    assert data.max_query_tokens == ranker.QUERY_LENGTH and set(train.tasks) <= set(data.tasks)
