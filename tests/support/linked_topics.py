"""A small linked wiki whose links follow topics, and five texts of a few words, for the tests of LinkLearn."""

import json

from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn.collection import count
from harp_jax.ranking.lexical import Collection

TOPICS, PAGES = 30, 120


def topic_words(topic: int) -> list[str]:
    return [f"topic{topic}x{i}" for i in range(6)]


def write_wiki(path):
    """Pages of a topic link to leads of the same topic; filler words are frequent and say nothing. Rare words matter."""
    filler = [f"filler{i}" for i in range(12)]
    files = {"leads.jsonl": [], "pages.jsonl": []}
    for number in range(2 * PAGES):
        rng = generator("linklearn wiki", number)
        topic = number % TOPICS
        page = number < PAGES
        words = [*rng.choice(topic_words(topic), 5 if page else 3), *rng.choice(filler, rng.integers(20, 60))]
        record = {"id": f"{'page' if page else 'lead'}{number}", "title": "", "text": " ".join(rng.permutation(words))}
        if page:
            leads = [n for n in range(PAGES, 2 * PAGES) if n % TOPICS == topic]
            record["links"] = [{"start": 0, "end": 1, "target": f"lead{n}"} for n in leads]
            record["links"].append({"start": 0, "end": 1, "target": "alias"})
        files["pages.jsonl" if page else "leads.jsonl"].append(json.dumps(record))
    for name, rows in files.items():
        (path / name).write_text("\n".join(rows) + "\n")
    (path / "redirects.tsv").write_text("alias\tlead120\n")


def paths(wiki):
    return (str(wiki / "pages.jsonl"), str(wiki / "leads.jsonl"))


TEXTS = [["red", "fox", "fox", "den"], ["fox", "owl"], ["owl", "owl", "owl", "red", "moon"], ["moon"], ["fox", "red"]]


def small():
    collection = Collection(((f"d{i}", " ".join(text)) for i, text in enumerate(TEXTS)), "")
    return collection, count(collection)
