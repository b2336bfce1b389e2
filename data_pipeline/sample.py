"""A small invented wiki with questions, made from a grammar in seconds; the same seed writes the same bytes.

Several pages share a name, so that an anchor or a question needs its context. A fact has three wordings, `page | page | question`,
which share only function words. A page uses one of the first two; links to it use the other one if there is a question about the
page, else the wording for questions. So no question is worded like its page or like a link to it: to find the page, a ranker must
learn from links to other pages that "passage across the water" belongs to "ferrymen" and to "landing stages and flat boats".
"""

import bz2
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from data_pipeline.sources.wikitext import Site, plain_text
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.made import once
from harp_jax.base.randomness import generator

FOLDS = 5
TRAIN_FOLDS = 3
HOMONYMS = 5  # pages that share a name, on average
FACTS_PER_PAGE = 2  # a question asks about both
QUESTION = 2  # index of the wording for questions
NAMESPACES = {"Talk": 1, "File": 6, "Template": 10, "Category": 14}
T = TypeVar("T")
_URL = "https://sample.invalid/wiki/"

# By the noun of each kind of page: the rest of its lead's first sentence, and facts in three wordings, `page | page | question`.
OPENINGS = {
    "town": "is a town in {region}.", "river": "is a river of {region}.", "person": "is a figure from {region}.",
    "guild": "is a guild seated in {region}.", "animal": "is an animal of {region}.",
    "machine": "is a machine first built in {region}.",
}  # fmt: skip
_FACTS = {
    "town": """landing stages and flat boats | ferrymen | passage across the water;
        brine in wide pans | salt makers | seasoning from the sea;
        grey stone in terraces | quarry workers | granite for masons; hives on every roof | beekeepers | honey and wax;
        sand melted into panes | glass blowers | windows and vases;
        flax and bleached cloth | linen weavers | fine fabric; herring over alder fires | fishwives | cured seafood;
        apples for the press | cider brewers | orchards and a fruity drink""",
    "river": """seven steep ledges | cataracts | waterfalls;
        reeds in every curve | sluggish bends | a course without any hurry; red clay | rusty floods | orange mud;
        frozen shores | skaters | solid ice; sulphur and warm springs | bathers | a thermal spa;
        wheels that grind corn | millers | the making of flour;
        grains of gold | prospectors | nuggets of precious metal;
        a covered wooden span | a toll bridge | payment at a crossing""",
    "person": """charts of shoals and coasts | maps for sailors | cartography;
        broken limbs and ointments | patients | the work of a doctor;
        verses about summer | poems | literature and rhyme;
        comets in brass tubes | astronomy | stars through a telescope;
        bronze cast for towers | a bell foundry | church chimes;
        vaults and domes | architecture | the design of buildings;
        reading lessons for orphans | pupils | a small school; grafted pears | gardening | plants and trees""",
    "guild": """weights and measures | inspectors | merchants who cheat;
        cargo saved from wreck | shipowners | refunds for lost vessels; books copied on vellum | scribes | manuscripts;
        singers at weddings | a choir | music with many voices;
        guards in the forest | armed escorts | protection on dangerous roads;
        graves of the poor | undertakers | funerals; swept chimneys | climbing boys | the removal of soot;
        money without interest | debtors | loans like those of a bank""",
    "animal": """chambers below oaks | burrows | tunnels underground;
        a glow like a green lamp | an eerie light | shining at night;
        stolen buttons and spoons | thefts | robbed jewellery;
        songs before thunder | a warning call | the prediction of storms;
        a coat that turns from brown to white | camouflage | hiding in snow;
        spitting of glue | sticky venom | deadly poison; young in a fold of its ear | tiny offspring | strange babies;
        columns of thousands | a yearly migration | huge moving herds""",
    "machine": """buckets lifted by a screw | irrigation | pumping for thirsty fields;
        dripping oil | timekeeping | a clock; patterns on wet plaster | decorators | painted rooms;
        nets on a geared drum | trawlers | the catching of fish;
        lenses on a spinning bowl | spectacle makers | eye glasses; rye shaken on sieves | granaries | wheat and chaff;
        pictures at half their size | engravers | art in miniature;
        a stretched hair | weather stations | humidity of the air""",
}
FACTS = {kind: [fact.strip().split(" | ") for fact in facts.split(";")] for kind, facts in _FACTS.items()}
# {0} and {1} are facts, {x} an anchor, {name} the name of a page.
LEADS = (
    "It is known for {0} and for {1}.", "It means {0} and {1} to most people.", "What it stands for is {0}, and also {1}.",
)  # fmt: skip
PHRASES = ("{x} and {0}", "{0} and {x}", "{x} with {0}")  # a link with a fact of its page
# Sentences for one or two phrases, with few other words: the facts of a page should dominate its sentence.
FRAMES = (
    "Nobody forgets {0}.", "There is a song about {0}.", "It is not far from {0}.", "Everyone talks of {0}.", "Then came {0}.",
    "This was due to {0}.", "As with {0}, so with {1}.", "Some prefer {0}, others {1}.",
)  # fmt: skip
PLAIN = (
    "Its early history is told in few sources.", "Most accounts were collected about {year} by a clerk of {region}.",
    "The name is older than any written record of {region}.", "Much of what is believed about it cannot be proved.",
    "A second account, dated {year}, differs in small details.", "The people of {region} tell the story in another order.",
    "Interest grew again after {year}, when roads were improved.",
)  # fmt: skip
HEADINGS = ("History", "Neighbours", "In song and story", "Later years", "Trade", "Disputes", "Legacy", "Visitors")
REGIONS = (
    "Norrland Vale", "the Hither Isles", "Upper Kestria", "the Salt Marches", "Wendmoor", "the Nine Hills", "Lower Ambria",
    "the Grey Coast",
)  # fmt: skip
ALIASES = ("Old {}", "Great {}", "{} the Elder", "Saint {}", "{} of the Hills", "New {}")
QUESTIONS = (
    "Which {name} has to do with {0} and {1}?", "Tell me, where is {name} if I care about {0} and {1}?",
    "I look for {name}, something about {0} or {1}.", "Can you say which {name} stands for {0} and {1}?",
)  # fmt: skip
ONSETS = "b br c d dr f fl g gr h k kl l m n p pr r s sk st t th tr v w".split()  # noqa: SIM905
VOWELS = "a e i o u ae ei ou".split()  # noqa: SIM905
CODAS = "l n r s th nd rk ll m st ck".split()  # noqa: SIM905
GIVEN = "Alvo Berin Cassa Dorrit Edda Gisla Hobart Ilse Jorun Kessa Lothar Mirna Nolo Orsin Petra Runa".split()  # noqa: SIM905


class Page(NamedTuple):
    """A planned article; `alias` is the title of a redirect. Its facts as its lead, links to it and questions word them."""

    id: int
    kind: str
    name: str
    title: str
    region: str
    alias: str
    leads: tuple[str, ...]
    links: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class SampleWiki:
    """What to write: articles, the seed, whether links state facts of their pages (else random ones, as a control)."""

    pages: int = 400
    seed: int = 0
    informative: bool = True


@once
def write_sample_wiki(options: SampleWiki, output: str) -> int:
    """Writes a wiki to a directory; returns the number of questions. InputError for too few pages.
    wiki.xml.bz2: a MediaWiki export of articles, redirects, disambiguation pages and a talk page. docs.tsv: docid, url, title,
    lead of the articles. queries.tsv, qrels.txt. folds.tsv: 5 folds, disjoint in relevant documents. {train,test}.queries.tsv:
    folds 0-2 and 3-4."""
    if options.pages < 2 * FOLDS:
        raise InputError(f"{options.pages} pages are too few for {FOLDS} folds; use at least {2 * FOLDS} pages")
    pages = world(options)
    articles = [article(page, pages, options.seed) for page in pages]
    docs = []
    for page, text in zip(pages, articles):
        plain = plain_text(text, Site(NAMESPACES))
        body, url = plain.text[: plain.lead_end].replace("\n", " "), _URL + page.title.replace(" ", "_")
        docs.append(f"{page.id}\t{url}\t{page.title}\t{body}\n")
    asked = list(questions(pages, options.seed))
    for name, lines in (
        ("docs.tsv", docs),
        ("queries.tsv", (f"{qid}\t{text}\n" for qid, text, _, _ in asked)),
        ("qrels.txt", (f"{qid} 0 {page.id} 1\n" for qid, _, page, _ in asked)),
        ("folds.tsv", (f"{qid}\t{fold}\n" for qid, _, _, fold in asked)),
        ("train.queries.tsv", (f"{qid}\t{text}\n" for qid, text, _, fold in asked if fold < TRAIN_FOLDS)),
        ("test.queries.tsv", (f"{qid}\t{text}\n" for qid, text, _, fold in asked if fold >= TRAIN_FOLDS)),
    ):
        with replacing(os.path.join(output, name)) as file:
            file.writelines(lines)
    with replacing(os.path.join(output, "wiki.xml.bz2"), "wb") as raw, bz2.open(raw, "wt", encoding="utf-8") as file:
        file.writelines(dump(pages, articles))
    return len(asked)


def world(options: SampleWiki) -> list[Page]:
    """The pages and their facts. Pages with the same name and kind share no fact while there are enough."""
    draw = generator("sample_wiki", options.seed, "world")
    names: dict[str, None] = {}
    while len(names) < max(4, options.pages // HOMONYMS):
        syllables = [_pick(ONSETS, draw) + _pick(VOWELS, draw) for _ in range(int(draw.integers(1, 3)))]
        names["".join([*syllables, _pick(CODAS, draw)]).capitalize()] = None
    usable = [name for name in names if len(name) > 3] or list(names)
    pages: list[Page] = []
    taken: set[str] = set()
    used: dict[tuple[str, str], set[int]] = {}
    asked, kinds = _asked(options.pages, options.seed), list(FACTS)
    for number in range(options.pages):
        kind = kinds[number % len(kinds)]
        name, region = _pick(usable, draw), _pick(REGIONS, draw)
        table, known = FACTS[kind], used.setdefault((name, kind), set())
        fresh = [n for n in range(len(table)) if n not in known]
        fresh = fresh if len(fresh) >= FACTS_PER_PAGE else list(range(len(table)))
        chosen = [fresh[n] for n in draw.permutation(len(fresh))[:FACTS_PER_PAGE]]
        known.update(chosen)
        facts = []
        for n in chosen:
            # In the control, links state a fact of any kind: one of the page's own kind would still reveal the kind.
            others = table if options.informative else FACTS[_pick(kinds, draw)]
            linked = others[n if options.informative else int(draw.integers(len(others)))]
            wordings, swapped = table[n], bool(draw.integers(2))
            of_links = linked[1 - swapped if number in asked else QUESTION]
            facts.append((wordings[swapped], of_links, wordings[QUESTION]))
        title = f"{_pick(GIVEN, draw)} {name}" if kind == "person" else f"{name} ({kind})"
        candidates = [title, f"{name} ({kind}, {region.removeprefix('the ')})", f"{title} ({number})"]
        title = next(candidate for candidate in candidates if candidate not in taken)
        alias = _pick(ALIASES, draw).format(title) if number % 3 == 0 else ""
        alias = "" if alias in taken else alias
        taken |= {title, alias}
        pages.append(Page(number + 10, kind, name, title, region, alias, *zip(*facts)))
    return pages


def article(page: Page, pages: list[Page], seed: int) -> str:
    """The wikitext of a page: infobox, lead, sections with links, a table, references, categories."""
    draw = generator("sample_wiki", seed, "article", page.id)

    def year() -> int:
        return int(draw.integers(1300, 1900))

    text = f"{{{{Infobox {page.kind}\n| name = {page.name}\n| region = [[{page.region}]]\n}}}}\n"
    text += f"'''{page.title.partition(' (')[0]}''' {OPENINGS[page.kind].format(region=page.region)}"
    text += f"<ref name=a>{{{{cite book|title=Annals of {page.region}|year={year()}}}}}</ref>"
    text += " " + _pick(LEADS, draw).format(*_shuffled(page.leads, draw)) + "\n"
    headings = draw.permutation(len(HEADINGS))[: int(draw.integers(2, 5))]
    for number, heading in enumerate(headings):
        sentences = [_linking(page, pages, draw) for _ in range(int(draw.integers(2, 5)))]
        at = int(draw.integers(len(sentences) + 1))
        sentences.insert(at, _pick(PLAIN, draw).format(year=year(), region=page.region))
        text += f"\n== {HEADINGS[heading]} ==\n"
        if number == 0:
            text += f"[[File:{page.name}.jpg|thumb|{_linking(page, pages, draw)}]]\n"
        text += " ".join(sentences) + "<ref name=a />\n"
    rows = "".join(f"|-\n| {year()} || {_anchor(_other(page, pages, draw), draw)}\n" for _ in range(3))
    text += f'\n== See also ==\n<!-- kept short -->\n{{| class="wikitable"\n! Year !! Page\n{rows}|}}\n'
    return text + f"* {_anchor(_other(page, pages, draw), draw)}\n\n[[Category:{page.kind.capitalize()}]]\n"


def _linking(page: Page, pages: list[Page], draw: np.random.Generator) -> str:
    """A sentence with links, each in a phrase with a fact of its page; both pages are in one region."""
    frame, one = _pick(FRAMES, draw), _other(page, pages, draw)
    near = [other for other in pages if other.region == one.region and other not in (one, page)]
    phrases = []
    for other in (one, _pick(near, draw) if near else _other(page, pages, draw)):
        phrases.append(_pick(PHRASES, draw).format(_pick(other.links, draw), x=_anchor(other, draw)))
    draw.integers(1300, 1900)  # unused; without it a seed would give other pages than in earlier versions
    sentence = frame.format(*phrases)
    return sentence[0].upper() + sentence[1:]


def _other(page: Page, pages: list[Page], draw: np.random.Generator) -> Page:
    # The square makes few destinations popular and most of them rare, as in real link graphs.
    other = pages[int(len(pages) * float(draw.random()) ** 2)]
    return other if other is not page else pages[(page.id - 10 + 1) % len(pages)]


def _anchor(page: Page, draw: np.random.Generator) -> str:
    """A link: mostly the name; sometimes through a redirect, with a description, or with the title."""
    target = page.alias if page.alias and draw.random() < 0.25 else page.title
    if draw.random() < 0.1:
        target = (target[0].lower() + target[1:]).replace(" ", "_")
    style = float(draw.random())
    article = "" if page.kind in ("town", "person") else "the "
    if style < 0.1:
        return f"[[{target}|the {page.kind}]]"
    if style < 0.15:
        return f"[[{page.title}]]"
    if style < 0.3:
        return f"{article}[[{target}#{HEADINGS[0]}|''{page.name}'']]"
    return f"{article}[[{target}|{page.name}]]"


def _pick(options: Sequence[T], draw: np.random.Generator) -> T:
    return options[int(draw.integers(len(options)))]


def _shuffled(facts: tuple[str, ...], draw: np.random.Generator) -> list[str]:
    return [facts[i] for i in draw.permutation(len(facts))]


def dump(pages: list[Page], articles: list[str]) -> Iterator[str]:
    """The text of a MediaWiki export, in pieces: articles, redirects, disambiguation pages, a talk page."""
    spaces = "".join(f'<namespace key="{key}">{name}</namespace>' for name, key in NAMESPACES.items())
    yield '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">\n<siteinfo>'
    yield f'<case>first-letter</case><namespaces><namespace key="0" />{spaces}</namespaces></siteinfo>\n'
    # (title, text, title that it redirects to), numbered from 10.
    elements = [(page.title, text, "") for page, text in zip(pages, articles)]
    elements += [(page.alias, f"#REDIRECT [[{page.title}]]", page.title) for page in pages if page.alias]
    for name in sorted({page.name for page in pages} - {page.title for page in pages}):
        first, *more = (page for page in pages if page.name == name)
        if more:
            lines = "".join(f"* [[{page.title}]], {page.kind}\n" for page in (first, *more))
            elements.append((name, f"'''{name}''' may mean:\n{lines}{{{{disambig}}}}\n", ""))
        else:
            elements.append((name, f"#REDIRECT [[{first.title}]]", first.title))
    elements.append((f"Talk:{pages[0].title}", f"Is this [[{pages[1].title}]]?", ""))
    for number, (title, text, redirect) in enumerate(elements, 10):
        pointer = f"<redirect title={quoteattr(redirect)} />" if redirect else ""
        yield f"<page><title>{escape(title)}</title><ns>{int(title.startswith('Talk:'))}</ns><id>{number}</id>{pointer}<revision>"
        yield f'<model>wikitext</model><text xml:space="preserve">{escape(text)}</text></revision></page>\n'
    yield "</mediawiki>\n"


def questions(pages: list[Page], seed: int) -> Iterator[tuple[str, str, Page, int]]:
    """(qid, question, relevant page, fold) in random order, one question per page."""
    draw = generator("sample_wiki", seed, "questions")
    for number, (index, fold) in enumerate(_asked(len(pages), seed).items(), 1):
        page = pages[index]
        facts = _shuffled(page.questions, draw)
        yield f"q{number}", _pick(QUESTIONS, draw).format(*facts, name=page.name), page, fold


def _asked(count: int, seed: int) -> dict[int, int]:
    """Place of a page that is asked about → fold of its question, in random order. A sixth of the pages are asked about in
    training questions (folds 0 to 2), three eighths in test questions (folds 3 and 4)."""
    train = max(TRAIN_FOLDS, count // 6)
    places = generator("sample_wiki", seed, "asked").permutation(count)[: train + 3 * count // 8].tolist()
    folds = (n % TRAIN_FOLDS if n < train else TRAIN_FOLDS + n % (FOLDS - TRAIN_FOLDS) for n in range(len(places)))
    return dict(zip(places, folds))
