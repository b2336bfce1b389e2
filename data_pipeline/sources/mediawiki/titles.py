"""Titles of a MediaWiki site: link targets to the addresses of pages.

MediaWiki's rules: `_` is a space, runs of spaces are one space, `#fragment` is not part of the title, the first letter is upper
case if <case> is "first-letter", and a prefix may name a namespace or another wiki. A dump lists its namespaces but neither
their aliases nor the interwiki prefixes: the common ones are below.
"""

import html
import re
import unicodedata
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

MAX_TITLE_BYTES = 255
CACHED_TARGETS = 1 << 16

# Namespaces that every wiki has (MediaWiki's canonical names and long-lived aliases).
CANONICAL = {
    "media": -2, "special": -1, "talk": 1, "user": 2, "user talk": 3, "project": 4, "project talk": 5, "file": 6,
    "file talk": 7, "image": 6, "image talk": 7, "mediawiki": 8, "mediawiki talk": 9, "template": 10,
    "template talk": 11, "help": 12, "help talk": 13, "category": 14, "category talk": 15, "wp": 4, "wt": 5,
    "wikipedia": 4, "wikipedia talk": 5, "portal": 100, "portal talk": 101, "module": 828, "timedtext": 710,
    "bild": 6, "datei": 6, "fichier": 6, "archivo": 6, "imagen": 6, "immagine": 6, "plik": 6, "grafika": 6,
    "файл": 6, "изображение": 6, "bestand": 6, "afbeelding": 6, "ficheiro": 6, "imagem": 6, "fil": 6, "soubor": 6,
    "ファイル": 6, "画像": 6, "文件": 6, "kategorie": 14, "catégorie": 14, "categoría": 14, "categoria": 14,
    "kategoria": 14, "категория": 14, "categorie": 14,
}  # fmt: skip

# Prefixes of sister projects and of sites in MediaWiki's default interwiki map that articles use.
INTERWIKI = frozenset(
    """w wikt wiktionary s wikisource b wikibooks q wikiquote n wikinews v wikiversity voy wikivoyage c commons d
    wikidata m meta metawikipedia mw mediawikiwiki species wikispecies f foundation wmf wikimedia incubator phab
    bugzilla toollabs tools doi rfc arxiv hdl pubmed imdbname imdbtitle google wikia wikicities memoryalpha
    uncyclopedia oeis wikitech outreach strategy testwiki test2wiki nost dmoz citeseer acronym jstor lojban
    wookieepedia""".split()  # noqa: SIM905
)

# Language editions: a link with such a prefix is shown in the sidebar, not in the text.
LANGUAGES = frozenset(
    """aa ab ace ady af ak als am an ang ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg bcl be
    be-tarask be-x-old bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs
    csb cu cv cy da de din diq dsb dty dv dz ee el eml en eo es et eu ext fa ff fi fiu-vro fj fo fr frp frr fur fy ga
    gag gan gcr gd gl glk gn gom gor got gu gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia id ie ig ii ik ilo
    inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kg ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb
    lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg lv mai map-bms mdf mg mh mhr mi min mk ml mn mnw mr mrj ms mt mus
    mwl my myv mzn na nah nap nds nds-nl ne new ng nl nn no nov nqo nrm nso nv ny oc olo om or os pa pag pam pap pcd
    pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup roa-tara ru rue rw sa sah sat sc scn sco sd se sg sh
    shn si simple sk sl sm smn sn so sq sr srn ss st stq su sv sw szl szy ta tcy te tet tg th ti tk tl tn to tpi tr
    ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical
    zh-min-nan zh-yue zu""".split()  # noqa: SIM905
)

_SPACES = re.compile(r"[\s_]+")
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")
_INVALID = re.compile(r"[\[\]{}|<>\x00-\x1f\x7f\ufffd]")


class Resolved(NamedTuple):
    """A link target: an address, or the reason (a slug) why it has none; hidden links are not part of the text."""

    address: str | None
    reason: str = ""
    hidden: bool = False


class Site:
    """The naming rules of one dump. `namespaces`: name in lower case → number; `language`: BCP 47 tag of the dump.

    `IT:` and `HR:` are language editions only on `wikimedia` sites: in an intranet wiki they begin page titles.
    """

    def __init__(
        self, namespaces: Mapping[str, int], first_letter: bool = True, language: str = "en", wikimedia: bool = True
    ):
        self.namespaces = CANONICAL | {_fold(name): number for name, number in namespaces.items() if name}
        self.first_letter = first_letter
        self.language = language
        self.languages, self.interwiki = (LANGUAGES, INTERWIKI) if wikimedia else (frozenset(), frozenset())
        self.media = [name for name, number in self.namespaces.items() if number == 6]
        self._resolved: dict[str, Resolved] = {}

    def resolve(self, target: str) -> Resolved:
        """Resolves the text between `[[` and `|` or `]]`; cached."""
        found = self._resolved.get(target)
        if found is None:
            if len(self._resolved) >= CACHED_TARGETS:
                self._resolved.clear()
            found = self._resolved[target] = self._resolve(target)
        return found

    def address(self, title: str) -> str:
        """A page title in its canonical form: spaces, composition (NFC), first letter."""
        title = _SPACES.sub(" ", title).strip()
        if not title.isascii():
            title = unicodedata.normalize("NFC", _DIRECTION_MARKS.sub("", title)).strip()
        return upper_first(title) if self.first_letter else title

    def namespace(self, title: str) -> int:
        """The number of the namespace that the title's prefix names; 0 without such a prefix."""
        prefix, colon, _ = title.partition(":")
        return self.namespaces.get(_fold(prefix), 0) if colon else 0

    def _resolve(self, target: str) -> Resolved:
        if "&" in target:
            target = html.unescape(target)
        if "%" in target:
            target = _percent_decoded(target)
        title = _SPACES.sub(" ", target.partition("#")[0]).strip()
        leading_colon = title.startswith(":")
        if leading_colon:
            title = title[1:].lstrip()
        prefix, colon, _ = title.partition(":")
        if colon:
            prefix = _fold(prefix)
            if number := self.namespaces.get(prefix, 0):
                return Resolved(None, "link-namespace", hidden=number in (6, 14) and not leading_colon)
            if prefix in self.languages:
                return Resolved(None, "link-interwiki", hidden=not leading_colon)
            if prefix in self.interwiki:
                return Resolved(None, "link-interwiki")
        if not title:
            return Resolved(None, "link-self" if "#" in target else "link-invalid")
        address = self.address(title)
        if not address or _INVALID.search(address) or len(address.encode("utf-8", "replace")) > MAX_TITLE_BYTES:
            return Resolved(None, "link-invalid")
        return Resolved(address)


def upper_first(title: str) -> str:
    """The title with its first letter in upper case, if that is a single letter; ß and Georgian letters do not change."""
    first = title[:1]
    upper = first.upper()
    return upper + title[1:] if len(upper) == 1 and not "\u10d0" <= first <= "\u10ff" else title


def _fold(prefix: str) -> str:
    return _SPACES.sub(" ", prefix).strip().lower()


def _percent_decoded(target: str) -> str:
    try:
        return urllib.parse.unquote(target, errors="strict")
    except UnicodeDecodeError:
        return target
