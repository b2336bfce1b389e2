"""A small invented wiki with questions, made from a grammar in seconds: `harp sample-wiki`.

Writes DIR/wiki.xml.bz2 (a MediaWiki export of articles, redirects, disambiguation pages and a talk page), DIR/docs.tsv (docid, url,
title, body: the articles' leads), DIR/queries.tsv, DIR/qrels.txt, DIR/folds.tsv (5 folds, disjoint in relevant documents) and
DIR/{train,test}.queries.tsv (folds 0-2 and 3-4). Several pages share a name, so that an anchor or a question needs its context;
grammar.py says how facts are worded. The same seed writes the same bytes.
"""

import bz2
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from data_pipeline.sample import grammar
from data_pipeline.sources.mediawiki.titles import Site
from data_pipeline.sources.mediawiki.wikitext import plain_text
from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator

FOLDS = 5
TRAIN_FOLDS = 3
HOMONYMS = 5  # pages that share a name, on average
FACTS = 2  # of a page; a question asks about both
QUESTION = 2  # the place of the questions' wording
T = TypeVar("T")
_NAMESPACES = {"Talk": 1, "File": 6, "Template": 10, "Category": 14}
_URL = "https://sample.invalid/wiki/"
FILES = ("wiki.xml.bz2", "docs.tsv", "queries.tsv", "qrels.txt", "folds.tsv", "train.queries.tsv", "test.queries.tsv")


class Fact(NamedTuple):
    """A fact of a page: its number among those of the kind, and its wording in the lead, in links and in questions."""

    number: int
    lead: str
    link: str
    question: str


class Page(NamedTuple):
    """A planned article: `alias` is the title of a redirect."""

    id: int
    kind: str
    name: str
    title: str
    region: str
    facts: tuple[Fact, ...]
    alias: str


def world(count: int, seed: int, informative: bool = True) -> list[Page]:
    """The pages and their facts. Pages of one name and kind share no fact as long as there are enough.

    informative=False is the control: links to a page tell facts drawn at random, so that they say nothing about it.
    """
    draw = generator("sample_wiki", seed, "world")
    names = _names(max(4, count // HOMONYMS), draw)
    pages: list[Page] = []
    taken: set[str] = set()
    used: dict[tuple[str, str], set[int]] = {}
    asked = set(_asked(count, seed).tolist())
    for number in range(count):
        kind = grammar.KINDS[number % len(grammar.KINDS)]
        name = str(names[int(draw.integers(len(names)))])
        region = _pick(grammar.REGIONS, draw)
        facts = _facts(grammar.FACTS[kind], used.setdefault((name, kind), set()), number in asked, informative, draw)
        noun = grammar.KIND_NOUNS[kind][0]
        title = f"{_pick(grammar.GIVEN, draw)} {name}" if kind == "person" else f"{name} ({noun})"
        place = region.removeprefix("the ")
        candidates = [title, f"{name} ({noun}, {place})", f"{title} ({number})"]
        title = next(candidate for candidate in candidates if candidate not in taken)
        alias = _pick(grammar.ALIASES, draw).format(title) if number % 3 == 0 else ""
        alias = "" if alias in taken else alias
        taken |= {title, alias}
        pages.append(Page(number + 10, kind, name, title, region, facts, alias))
    return pages


def _names(count: int, draw: np.random.Generator) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        syllables = [_pick(grammar.ONSETS, draw) + _pick(grammar.VOWELS, draw) for _ in range(int(draw.integers(1, 3)))]
        names["".join([*syllables, _pick(grammar.CODAS, draw)]).capitalize()] = None
    return [name for name in names if len(name) > 3] or list(names)


def _pick(options: Sequence[T], draw: np.random.Generator) -> T:
    return options[int(draw.integers(len(options)))]


def _facts(
    table: Sequence[str], used: set[int], asked: bool, informative: bool, draw: np.random.Generator
) -> tuple[Fact, ...]:
    """Two facts; those in `used` are avoided while others are left."""
    fresh = [number for number in range(len(table)) if number not in used]
    if len(fresh) < FACTS:
        fresh = list(range(len(table)))
    chosen = [fresh[i] for i in draw.permutation(len(fresh))[:FACTS]]
    used.update(chosen)
    facts = []
    for number in chosen:
        # In the control of any kind: a fact of the page's own kind would still tell the kind.
        other = table if informative else grammar.FACTS[_pick(grammar.KINDS, draw)]
        linked = number if informative else int(draw.integers(len(other)))
        first, second, question = table[number].split(" | ")
        swapped = bool(draw.integers(2))
        lead = second if swapped else first
        facts.append(Fact(number, lead, other[linked].split(" | ")[QUESTION if not asked else 1 - swapped], question))
    return tuple(facts)


def article(page: Page, pages: list[Page], seed: int) -> str:
    """The wikitext of a page: infobox, lead, sections with links, a table, references, categories."""
    draw = generator("sample_wiki", seed, "article", page.id)
    noun, opening = grammar.KIND_NOUNS[page.kind]
    lead = f"'''{page.title.partition(' (')[0]}''' is {opening.format(region=page.region)}."
    lead += f"<ref name=a>{{{{cite book|title=Annals of {page.region}|year={_year(draw)}}}}}</ref>"
    lead += " " + _pick(grammar.LEADS, draw).format(*(fact.lead for fact in _order(page.facts, draw)))
    text = f"{{{{Infobox {noun}\n| name = {page.name}\n| region = [[{page.region}]]\n}}}}\n{lead}\n"
    headings = draw.permutation(len(grammar.HEADINGS))[: int(draw.integers(2, 5))]
    for place, heading in enumerate(headings):
        sentences = [_linking(page, pages, draw) for _ in range(int(draw.integers(2, 5)))]
        sentences.insert(int(draw.integers(len(sentences) + 1)), _plain(page, draw))
        text += f"\n== {grammar.HEADINGS[heading]} ==\n"
        if place == 0:
            text += f"[[File:{page.name}.jpg|thumb|{_linking(page, pages, draw)}]]\n"
        text += " ".join(sentences) + "<ref name=a />\n"
    rows = "".join(f"|-\n| {_year(draw)} || {_anchor(_other(page, pages, draw), draw)}\n" for _ in range(3))
    text += f'\n== See also ==\n<!-- kept short -->\n{{| class="wikitable"\n! Year !! Page\n{rows}|}}\n'
    return text + f"* {_anchor(_other(page, pages, draw), draw)}\n\n[[Category:{noun.capitalize()}]]\n"


def _year(draw: np.random.Generator) -> int:
    return int(draw.integers(1300, 1900))


def _plain(page: Page, draw: np.random.Generator) -> str:
    return _pick(grammar.PLAIN, draw).format(year=_year(draw), region=page.region)


def _other(page: Page, pages: list[Page], draw: np.random.Generator) -> Page:
    # The square makes few destinations popular and most of them rare, as in real link graphs.
    other = pages[int(len(pages) * float(draw.random()) ** 2)]
    return other if other is not page else pages[(page.id - 10 + 1) % len(pages)]


def _order(facts: tuple[Fact, ...], draw: np.random.Generator) -> list[Fact]:
    return [facts[i] for i in draw.permutation(len(facts))]


def _linking(page: Page, pages: list[Page], draw: np.random.Generator) -> str:
    """A sentence with links, each in a phrase that tells a fact of its page; both pages are of one region."""
    frame = _pick(grammar.FRAMES, draw)
    one = _other(page, pages, draw)
    near = [other for other in pages if other.region == one.region and other not in (one, page)]
    phrases = []
    for other in (one, _pick(near, draw) if near else _other(page, pages, draw)):
        phrases.append(_pick(grammar.PHRASES, draw).format(_pick(other.facts, draw).link, x=_anchor(other, draw)))
    sentence = frame.format(*phrases, year=_year(draw), region=page.region)
    return sentence[0].upper() + sentence[1:]


def _anchor(page: Page, draw: np.random.Generator) -> str:
    """A link: mostly the name; sometimes through a redirect, with a description, or with the title."""
    target = page.alias if page.alias and draw.random() < 0.25 else page.title
    if draw.random() < 0.1:
        target = (target[0].lower() + target[1:]).replace(" ", "_")
    style = float(draw.random())
    article = "" if page.kind in ("town", "person") else "the "
    if style < 0.1:
        return f"[[{target}|the {grammar.KIND_NOUNS[page.kind][0]}]]"
    if style < 0.15:
        return f"[[{page.title}]]"
    if style < 0.3:
        return f"{article}[[{target}#History|''{page.name}'']]"
    return f"{article}[[{target}|{page.name}]]"


def dump(pages: list[Page], seed: int) -> Iterator[str]:
    """The text of a MediaWiki export, in pieces."""
    yield (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">\n  <siteinfo>\n'
        "    <sitename>Sample wiki</sitename>\n    <dbname>samplewiki</dbname>\n    <case>first-letter</case>\n"
        '    <namespaces>\n      <namespace key="0" case="first-letter" />\n'
    )
    for name, number in _NAMESPACES.items():
        yield f'      <namespace key="{number}" case="first-letter">{name}</namespace>\n'
    yield "    </namespaces>\n  </siteinfo>\n"
    for page in pages:
        yield _element(page.title, page.id, article(page, pages, seed))
    number = 10 + len(pages)
    for page in pages:
        if page.alias:
            yield _element(page.alias, number, f"#REDIRECT [[{page.title}]]", redirect=page.title)
            number += 1
    titles = {page.title for page in pages}
    for name in sorted({page.name for page in pages} - titles):
        listed = [page for page in pages if page.name == name]
        if len(listed) > 1:
            lines = "".join(f"* [[{page.title}]], {grammar.KIND_NOUNS[page.kind][0]}\n" for page in listed)
            yield _element(name, number, f"'''{name}''' may mean:\n{lines}{{{{disambig}}}}\n")
        else:
            yield _element(name, number, f"#REDIRECT [[{listed[0].title}]]", redirect=listed[0].title)
        number += 1
    yield _element("Talk:" + pages[0].title, number, "Is this [[" + pages[1].title + "]]?", namespace=1)
    yield "</mediawiki>\n"


def _element(title: str, number: int, text: str, redirect: str = "", namespace: int = 0) -> str:
    pointer = f"    <redirect title={quoteattr(redirect)} />\n" if redirect else ""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{namespace}</ns>\n    <id>{number}</id>\n{pointer}"
        f"    <revision>\n      <id>{number}</id>\n      <timestamp>2020-01-01T00:00:00Z</timestamp>\n"
        "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
        f'      <text xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


def questions(pages: list[Page], seed: int) -> Iterator[tuple[str, str, Page, int]]:
    """(qid, question, relevant page, fold) in random order, one question a page.

    A sixth of the pages are asked about in training questions (folds 0 to 2), three eighths in test questions (folds 3 and 4).
    """
    draw = generator("sample_wiki", seed, "questions")
    train = _train(len(pages))
    for number, place in enumerate(_asked(len(pages), seed)):
        page = pages[place]
        asked = [fact.question for fact in _order(page.facts, draw)]
        fold = number % TRAIN_FOLDS if number < train else TRAIN_FOLDS + number % (FOLDS - TRAIN_FOLDS)
        yield f"q{number + 1}", _pick(grammar.QUESTIONS, draw).format(*asked, name=page.name), page, fold


def _train(count: int) -> int:
    """The number of training questions about `count` pages."""
    return max(TRAIN_FOLDS, count // 6)


def _asked(count: int, seed: int) -> np.ndarray:
    """The places of the pages that are asked about, those of training questions first, in random order."""
    return generator("sample_wiki", seed, "asked").permutation(count)[: _train(count) + 3 * count // 8]


def _check_output(output: str) -> None:
    """Raises InputError where a file would be lost that no sample wiki wrote."""
    there = [name for name in FILES if os.path.lexists(os.path.join(output, name))]
    if there:
        documents = os.path.join(output, "docs.tsv")
        first = next(files.lines(documents), (0, ""))[1] if "docs.tsv" in there else ""
        if f"\t{_URL}" not in first:
            lost = os.path.join(output, there[0])
            raise InputError(f"{lost}: is no file of a sample wiki and would be lost; choose another --output")


def write(output: str, count: int, seed: int, informative: bool = True) -> int:
    """Writes the seven files of a wiki of `count` articles; returns the number of questions.

    informative=False: see `world`. InputError if `output` cannot be written or holds files of these names that are no
    sample's, or if `count` is too small.
    """
    _check_output(output)
    if count < 2 * FOLDS:
        raise InputError(f"{count} pages are too few for {FOLDS} folds; use at least {2 * FOLDS} pages")
    pages = world(count, seed, informative)
    site = Site(_NAMESPACES)
    with files.replacing(os.path.join(output, "docs.tsv")) as file:
        for page in pages:
            plain = plain_text(article(page, pages, seed), site)
            body = plain.text[: plain.lead_end].replace("\n", " ")
            url = _URL + page.title.replace(" ", "_")
            file.write(f"{page.id}\t{url}\t{page.title}\t{body}\n")
    asked = list(questions(pages, seed))
    for name, line in (
        ("queries.tsv", "{qid}\t{text}\n"),
        ("qrels.txt", "{qid} 0 {page.id} 1\n"),
        ("folds.tsv", "{qid}\t{fold}\n"),
    ):
        with files.replacing(os.path.join(output, name)) as file:
            for qid, text, page, fold in asked:
                file.write(line.format(qid=qid, text=text, page=page, fold=fold))
    # The demo trains on the first three folds and is tested on the others.
    for name, first, last in (("train.queries.tsv", 0, TRAIN_FOLDS), ("test.queries.tsv", TRAIN_FOLDS, FOLDS)):
        with files.replacing(os.path.join(output, name)) as file:
            file.writelines(f"{qid}\t{text}\n" for qid, text, _, fold in asked if first <= fold < last)
    with (
        files.replacing(os.path.join(output, "wiki.xml.bz2"), "wb") as raw,
        bz2.open(raw, "wt", encoding="utf-8") as file,
    ):
        for piece in dump(pages, seed):
            file.write(piece)
    return len(asked)
