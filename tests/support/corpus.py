"""A tiny invented corpus as linked JSONL: ambiguous anchors, redirects, several links in a sentence, bad links."""

import json
from collections.abc import Iterable
from pathlib import Path

from ml_collections import ConfigDict

from data_pipeline.config import generation
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import SPECIAL_TOKENS

SYLLABLES = ["ba", "ko", "ri", "mu", "ta", "se", "lo", "fi", "ne", "du"]
WORDS = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in ("", "n", "x")]
FUNCTION = ["the", "of", "and", "in", "is", "a", "to", "near", "with", "from"]
# A third of the words are whole in the vocabulary, the others are split into pieces.
PIECES = [f"##{piece}" for piece in (*"abcdefghijklmnopqrstuvwxyz", *SYLLABLES)]
VOCABULARY = [*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz0123456789.,()", *PIECES]
VOCABULARY += SYLLABLES + FUNCTION + WORDS[2::3]
PAGES = 48


def page(number: int) -> dict:
    rng = generator("corpus", number)
    words = [WORDS[i] for i in rng.integers(0, len(WORDS), 14)]
    lead = " ".join(f"{FUNCTION[rng.integers(len(FUNCTION))]} {word}" for word in words)
    text = f"{WORDS[100 + number]} {lead}.\n"
    lead_end = len(text) - 1
    links = []
    for _ in range(4):
        for at in range(3):
            target = int(rng.integers(PAGES))
            context = " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), 5))
            text += f"{'The ' if at == 0 else ' and the '}{context} of "
            anchor = WORDS[100 + (target // 2 if target % 6 < 2 else target)]  # every third text is shared by two pages
            address = f"alias-{target}" if target % 5 == 0 else f"p{target}"
            links.append({"start": len(text), "end": len(text) + len(anchor), "target": address})
            text += anchor
        text += " is near. "
    links[-1]["target"] = "nowhere"
    return {"id": f"p{number}", "title": WORDS[100 + number], "text": text, "links": links, "lead_end": lead_end}


def write(folder: Path, files: int = 3) -> Path:
    """Writes vocab.txt, pages-N.jsonl, redirects.tsv (a chain of two, and a cycle)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(VOCABULARY)) + "\n")
    for number in range(files):
        write_pages(folder / f"pages-{number}.jsonl", map(page, range(number, PAGES, files)))
    chains = [f"alias-{i}\tbetween-{i}\nbetween-{i}\tp{i}" for i in range(0, PAGES, 5)]
    (folder / "redirects.tsv").write_text("\n".join([*chains, "here\tthere", "there\there"]) + "\n")
    return folder


def write_pages(path: Path, pages: Iterable[dict]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in pages))


def write_site(folder: Path) -> str:
    """Writes the pages as a web site with a menu and a footer: a folder per page, and one with a redirect per alias."""
    menu = "".join(f"<p><a href='/p{number}/'>{word}</a>" for number, word in enumerate(("ba", "ko", "ri")))
    site = {f"alias-{n}": f"<meta http-equiv=refresh content='0; url=../p{n}/'>" for n in range(0, PAGES, 5)}
    for number, given in enumerate(map(page, range(PAGES))):
        text = given["text"]
        for link in reversed(given["links"]):
            start, end = link["start"], link["end"]
            text = f"{text[:start]}<a href='../{link['target']}/index.html#top'>{text[start:end]}</a>{text[end:]}"
        lead, _, body = text.partition("\n")
        content = f"<h1>p{number}</h1><p>{lead}</p><h2>more</h2><p>{body}</p>{menu}<footer><a href='/about'>about</a></footer>"
        site[f"p{number}"] = f"<!doctype html><meta charset=utf-8><title>{number}</title>{content}"
    for name, html in site.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(html)
    return str(folder)


def write_config(path: Path, folder: Path, **fields: object) -> Path:
    """Writes a file for --config with `config(folder, preset, **fields)`."""
    path.write_text(
        "from pathlib import Path\nfrom tests.support import corpus\ndef get_config(preset=''):\n"
        f"    return corpus.config(Path({str(folder)!r}), preset, **{fields!r})\n"
    )
    return path


def config(folder: Path, preset: str = "", **fields: object) -> ConfigDict:
    c = generation(preset)
    c.source.format = "linked_jsonl"
    c.source.paths = (str(folder / "pages-*.jsonl"),)
    c.source.redirects = (str(folder / "redirects.tsv"),)
    c.tokenizer = str(folder / "vocab.txt")
    c.encoder = "uniform"
    c.min_article_words, c.validation_fraction, c.memory_limit = 0, 0.3, "500MB"
    with c.unlocked():
        c.update(fields)
    return c
