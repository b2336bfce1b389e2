"""A tiny invented corpus as linked JSONL: ambiguous anchors, redirects, several links in a sentence, bad links."""

import json
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


def anchor_text(page: int) -> str:
    """The anchor text for a page; every third one is shared by two pages."""
    return WORDS[100 + (page // 2 if page % 6 < 2 else page)]


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
            anchor = anchor_text(target)
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
        pages = [json.dumps(page(i)) for i in range(number, PAGES, files)]
        (folder / f"pages-{number}.jsonl").write_text("\n".join(pages) + "\n")
    chains = [f"alias-{i}\tbetween-{i}\nbetween-{i}\tp{i}" for i in range(0, PAGES, 5)]
    (folder / "redirects.tsv").write_text("\n".join([*chains, "here\tthere", "there\there"]) + "\n")
    return folder


def write_config(path: Path, folder: Path, **fields: object) -> Path:
    """Writes a file for --config whose `get_config` is `config(folder, preset, **fields)`; needs the root in PYTHONPATH."""
    path.write_text(
        "from pathlib import Path\n\n"
        "from tests.support import corpus\n\n\n"
        "def get_config(preset=''):\n"
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
    c.min_article_words = 0
    c.validation_fraction = 0.3
    c.memory_limit = "500MB"
    with c.unlocked():
        c.update(fields)
    return c
