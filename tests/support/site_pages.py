"""An invented HTML site: every page has its own words, and links to other pages use two of theirs as text."""

from pathlib import Path

from harp_jax.base.randomness import generator

WORDS, LINKS = 8, 7
COMMON = ["water", "gate", "boat", "bridge", "keeper", "stone", "river", "mill", "ferry", "barge"]


def own_words(number: int) -> list[str]:
    return [
        f"{'bcdfghklmn'[number % 10]}{'aeiou'[number // 10 % 5]}{'rstvz'[number // 50 % 5]}{end}o" for end in "bdfgklmn"
    ]


def sentence(number: int, target: int, key: str) -> str:
    rng = generator("site pages", number, key)
    anchor = " ".join(rng.permutation(own_words(target))[:2])
    before, after = rng.permutation(COMMON)[:2]
    return f"The {before} leads to <a href='p{target}.html'>{anchor}</a> by the {after}."


def write(folder: Path, pages: int = 150) -> Path:
    folder.mkdir(parents=True)
    for number in range(pages):
        rng = generator("site pages", number)
        filler = " ".join(rng.choice(COMMON, 6))
        links = [sentence(number, int(rng.integers(pages)), str(link)) for link in range(LINKS)]
        text = f"Of {' '.join(own_words(number))}. Here is {filler}."
        body = f"<h1>Page {number}</h1><p>{text}</p><p>{' '.join(links)}</p>"
        (folder / f"p{number}.html").write_text(f"<!doctype html><title>Page {number}</title><body>{body}</body>")
    return folder
