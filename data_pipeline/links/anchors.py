"""Which anchor texts do not describe their destination.

A link is dropped for its text (a number or date, a navigation phrase, too many words), or for its frequency: the same anchor and
destination on most pages is a menu, and an anchor text with very many destinations describes none of them.
"""

import re

from data_pipeline.engine.job import Config
from data_pipeline.text.terms import count_words

# Navigation phrases without a topic.
NAVIGATION = frozenset(
    " ".join(phrase.split())
    for phrase in """here; click; click here; this page; this link; this article; link; links; more; read more; learn more;
    see more; show more; more info; more information; more details; details; continue; continue reading; full story; next;
    next page; previous; previous page; prev; back; back to top; home page; homepage; table of contents; edit; permalink;
    see also; website; web site; official website; official site; external link; log in; login; sign in; sign up;
    contact us; about us; privacy policy; terms of use; terms of service; sitemap; coordinates""".split(";")  # noqa: SIM905
)
RECURS_ON = 20  # minimum number of pages with the same link before it counts as a menu
MENU_SHARE = 0.5  # an anchor with one destination on more than this share of the pages (and on RECURS_ON) is a menu
MANY_DESTINATIONS = 1000  # an anchor text with more destinations describes none of them
LONGEST = 16  # words; longer anchors are whole clauses, not queries

_WORD = re.compile(r"\w+")
_OF_NUMBERS = re.compile(
    r"\d+(?:[年月日]\d+)*[年月日]?(?:st|nd|rd|th|s)?|january|february|march|april|may|june|july|august|september|october|november|"
    r"december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|ad|bc|bce|ce|c|ca|circa|century|centuries|am|pm"
)


def reason_to_drop(anchor: str, c: Config) -> str:
    """Why a normalised anchor text is not a query, as a slug; empty for a good one."""
    if count_words(anchor) > LONGEST:
        return "anchor-too-long"
    if c["drop_anchors"] and is_number(anchor):
        return "anchor-number"
    return "anchor-boilerplate" if c["drop_anchors"] and anchor in NAVIGATION else ""


def is_number(anchor: str) -> bool:
    """Whether a text is a year, date, century or other number, or has no letters ("1990s", "5 may", "[1]", "—").

    Dates are recognised in English and in Chinese characters; a number with a unit or a noun ("5 km", "1990 season") is not one.
    """
    if not any(character.isalpha() for character in anchor):
        return True
    if not any(character.isdigit() for character in anchor):
        return False
    return all(_OF_NUMBERS.fullmatch(word) for word in _WORD.findall(anchor))


def limits(c: Config, pages: int) -> tuple[int, int]:
    """(maximum pages with the same link, maximum destinations of an anchor text), given the number of pages with links."""
    if not c["drop_anchors"]:
        return (1 << 62, 1 << 62)
    return max(RECURS_ON, int(MENU_SHARE * pages)), MANY_DESTINATIONS
