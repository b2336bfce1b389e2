"""Normalise URLs to addresses of pages: URLs that a server answers with the same page become equal.

Parsed as browsers do (WHATWG, by ada); no user, no fragment, one spelling of percent-encoding, no final `index.html` or
`default.aspx`, no final slash, https for http: rules that hold on practically every site. What differs by site (www., tracking
parameters, case of paths) is left to its redirects and canonical links.
"""

import re
import urllib.parse
from collections.abc import Callable
from functools import lru_cache

from data_pipeline.sources.document import Source
from harp_jax.base.errors import InputError, needs

MAX_URL_BYTES = 2048
SCHEMES = ("http:", "https:", "file:")
_IGNORED = re.compile("[\t\n\r]")
_BLANK = "".join(map(chr, range(33)))  # what HTML strips from both ends
_PERCENT = re.compile("%([0-9a-fA-F]{2})")
_INDEX = re.compile(r"/(?:index\.(?:x?html?|php|aspx?|jsp)|default\.aspx?)$", re.IGNORECASE)
# Servers read these like their escapes: the unreserved ones (RFC 3986), and those that only some programs escape in paths.
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!'()*,:@")
SAFE = "/%:@!$&'()*+,;=-._~"


def resolve(base: str, href: str, encoding: str = "utf-8") -> tuple[str | None, str]:
    """The address that `href` on the page `base` leads to, or None and the reason: a short slug. A link within the page
    (`#part`) has no address, and neither has mailto: or the like. Browsers send queries in the page's `encoding`, paths in
    UTF-8."""
    href = _IGNORED.sub("", href).strip(_BLANK)
    if not href or href.startswith("#"):
        return None, "link-self" if href else "link-invalid"
    path, mark, query = href.partition("#")[0].partition("?")
    if not query.isascii():
        import webencodings

        query = urllib.parse.quote(webencodings.encode(query, encoding, "xmlcharrefreplace"), f"{SAFE}?")
    url = joined(base, path + mark + query)
    if not url:
        return None, "link-invalid"
    if not url.startswith(SCHEMES):
        return None, "link-scheme"
    target = address(url)
    return target, "" if target else "link-invalid"


def joined(base: str, href: str) -> str:
    """The absolute URL of a reference; empty if it is invalid."""
    try:
        return _ada().join_url(base, href)
    except ValueError:
        return ""


def fragment(href: str) -> str:
    """The anchor that a reference names; empty if it names none or the top of the page."""
    name = anchor(urllib.parse.unquote(_IGNORED.sub("", href).partition("#")[2]))
    return "" if name.lower() == "top" or name.startswith(":~:") else name


def anchor(name: str) -> str:
    """An HTML id as part of a section's address: without white space, which run files cannot contain."""
    return "".join(filter(str.isprintable, "%20".join(name.split())))[:MAX_URL_BYTES]


@lru_cache(maxsize=1 << 16)  # pages of a site link to the same pages
def address(url: str) -> str | None:
    """The normalised form of an absolute http, https or file URL; None for anything else, or more than 2,048 bytes."""
    try:
        parts = _ada().URL(url)
    except ValueError:
        return None
    scheme, host = parts.protocol, parts.hostname.rstrip(".")
    if len(url) > MAX_URL_BYTES or scheme not in SCHEMES or (not host and scheme != "file:"):
        return None
    port = parts.port and f":{parts.port}"
    path = _INDEX.sub("/", _spelled(parts.pathname, SAFE)).rstrip("/")
    query = _spelled(parts.search, SAFE + "?")
    url = f"{'https:' if scheme == 'http:' else scheme}//{host}{port}{path}{query}"
    return url if len(url) <= MAX_URL_BYTES else None


def _ada():  # type: ignore[no-untyped-def]  # the module
    with needs("reading web pages", "ada_url", "web"):
        import ada_url
    return ada_url


def base_url(source: Source) -> str:
    """The URL of the given folders, `https://` unless another scheme is named; file:/// if there is none; InputError if invalid."""
    base = source.get("base_url") or "file:///"
    base = base if "//" in base else f"https://{base}"
    # "https://" alone: the folders are named after hosts.
    if (base not in ("http://", "https://") and address(base) is None) or re.search(r"[?#\s]", base):
        raise InputError(
            f"config.source.base_url {base!r} must be a URL without query or fragment; write https://host/path/"
        )
    return base if base.endswith("/") else base + "/"


def addresser(source: Source) -> Callable[[str], str]:
    """Normalises URLs like links, with the fragment where pages may be split; leaves other strings unchanged."""
    sections, base = source.get("split", "pages") != "pages", base_url(source)
    base = "file:///" if base in ("http://", "https://") else base

    def normalised(url: str) -> str:
        page = resolve(base, url)[0]
        part = fragment(url) if sections else ""
        return (f"{page}#{part}" if part else page) if page else url.strip()

    return normalised


def site(address: str) -> str:
    """The host of an address; empty for files of a folder without `source.base_url`."""
    return re.split("[/?]", address, maxsplit=3)[2]


def _spelled(part: str, safe: str) -> str:
    quoted = urllib.parse.quote(part, safe)
    quoted = re.sub("%(?![0-9a-fA-F]{2})", "%25", quoted)
    return _PERCENT.sub(lambda m: chr(b) if (b := int(m[1], 16)) in _UNESCAPED else m[0].upper(), quoted)
