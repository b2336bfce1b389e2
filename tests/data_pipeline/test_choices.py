"""Presets and options of the whole job: wordpieces as units, pages known by their text, values that make no sense."""

import json

import pytest

from data_pipeline.config import PRESETS, plain
from data_pipeline.engine.local import SerialEngine
from data_pipeline.main import arguments_parser
from data_pipeline.pipeline import generate
from data_pipeline.text.terms import load_terms
from harp_jax.base.errors import InputError
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.generation_job import linked_documents, table


def test_wordpieces_as_units_escape_the_stopwords(tmp_path):
    folder = corpus.write(tmp_path)
    words, pieces = (load_terms(str(folder / "vocab.txt"), "", unit) for unit in ("words", "tokens"))
    text = "the bako, lobafi"
    (span, starts, ends), (cut, piece_starts, piece_ends) = (next(iter(t.split([text], 50))) for t in (words, pieces))
    assert span.tokens.tolist() == cut.tokens.tolist() and set(cut.lengths.tolist()) == {1}
    assert len(cut.lengths) > len(span.lengths)
    assert words.ids(span.words) == pieces.ids(cut.words) == span.tokens.tolist()
    # Spans of characters still find their words.
    assert text[piece_starts[-1] : piece_ends[-1]] == text[-(ends[-1] - piece_starts[-1]) :]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid(tmp_path, preset):
    plain(corpus.config(tmp_path, preset=preset, language="en"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(unit="letters"), "config.unit='letters' is not allowed; use one of words, tokens"),
        (dict(sampling="official", context_in_page=True), "context_in_page"),
        (dict(qdm_positives=-1), "qdm_positives"),
        (dict(preset="authors"), "unknown preset 'authors'"),
        (dict(weighting="loud"), "weighting"),
        (dict(tasks=("prop",), encoder="", prop_distribution="contrastive"), "config.encoder is not set"),
        (dict(workers=0), "workers"),
        (dict(memory_limit="4"), "memory_limit"),
        (dict(source={"format": "pdf"}), "format"),
        (dict(source={"max_page_bytes": 0}), "max_page_bytes"),
        (dict(source={"paths": ()}), "paths"),
        (dict(source={"index": ("i",)}), "index"),
        (dict(source={"split": "chapters"}), "config.source.split='chapters'"),
    ],
)
def test_choices_that_make_no_sense_are_refused_before_the_job(tmp_path, fields, message):
    (tmp_path / "vocab.txt").touch()
    (tmp_path / "pages-0.jsonl").touch()
    with pytest.raises(InputError, match=message):
        generate(corpus.config(tmp_path, **fields), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_official_preset_runs_and_the_command_line_wins(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    job = corpus.write_config(tmp_path / "job.py", folder, encoder="idf", workers=1, keep_work=True)
    arguments = [f"--config={job}:official", "--config.rdp_pairs=sampled", f"--output={tmp_path / 'out'}"]
    parsed = arguments_parser().parse_args(arguments)
    manifest = generate(parsed.config, parsed.output, SerialEngine)
    assert manifest["config"] == manifest["config"] | PRESETS["official"] | {"rdp_pairs": "sampled"}
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values())
    requests = table(tmp_path / "out", "requests")
    vocabulary = load_tokenizer(str(folder / "vocab.txt")).vocab
    assert all(word in vocabulary for row in requests for word in row["anchor"].split())


def test_pages_of_one_text_are_one_page_by_choice(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=1)
    path = folder / "pages-0.jsonl"
    pages = [json.loads(line) for line in path.read_text().splitlines()]
    lead = pages[1]["text"][: pages[1]["lead_end"]]
    # p2 says what p1 says, in capitals.
    pages[2] |= {"text": lead.upper() + pages[2]["text"][pages[2]["lead_end"] :]}
    shift = len(lead) - pages[2]["lead_end"]
    pages[2]["links"] = [link | {side: link[side] + shift for side in ("start", "end")} for link in pages[2]["links"]]
    pages[2]["lead_end"] = len(lead)
    path.write_text("".join(json.dumps(page) + "\n" for page in pages))
    output = tmp_path / "out"
    linked_documents(corpus.config(folder, page_identity="text", workers=1, tasks=("rqp", "qdm")), output)
    numbers = {row["id"]: row["doc"] for row in table(output, "pages")}
    links = table(output, "resolved")
    to_second = [link for link in links if link["target"] == "p2"]
    assert to_second and {link["destination"] for link in to_second} == {numbers["p1"]}
    assert not any(row["doc"] == numbers["p2"] for row in table(output, "candidates"))
