"""Pages that are lists of links: indices, tables of contents, site maps, and forms for searching.

Their anchors repeat titles and names without a sentence around them, and there are many: 42 % of the links of Python's
documentation. They are recognised by the names that generators of documentation give them, or by their text: links and little else.
"""

import re
from collections.abc import Sequence

from data_pipeline.sources.document import Link

_NAMES = re.compile(
    r"(?:^|/)(?:search|genindex(?:-[^/]*)?|(?:[a-z]+-)?modindex|sitemap|index-all|all(?:classes|packages)(?:-[^/]*)?)(?:\.\w+)?$"
)
MIN_LINKS = 30
_LINKED = 0.7  # of the characters


def is_index_page(address: str, length: int, links: Sequence[Link]) -> bool:
    """`length`: characters of the page's text."""
    if _NAMES.search(address.partition("?")[0]):
        return True
    return len(links) >= MIN_LINKS and sum(link.end - link.start for link in links) > _LINKED * length
