"""Normalise URLs to addresses of pages: URLs that a server answers with the same page become equal.

Scheme and host in lower case, no default port, no fragment, one spelling of percent-encoding (RFC 3986 section 6.2.2), no dot
segments, no final `index.html` or `default.aspx`, no final slash, https for http: rules that hold on practically every site. What
differs by site (www., tracking parameters, case of paths) is left to its redirects and canonical links.
"""

import re
import urllib.parse
from collections.abc import Callable
from functools import lru_cache

from data_pipeline.sources.document import Source

MAX_URL_BYTES = 2048
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_IGNORED = re.compile("[\t\n\r]")
_BLANK = "".join(map(chr, range(33)))  # what HTML strips from both ends
_HOST = re.compile(r"[a-z0-9._:-]*")
_PERCENT = re.compile("%([0-9a-fA-F]{2})")
_INDEX = re.compile(r"/(?:index\.(?:x?html?|php|aspx?|jsp)|default\.aspx?)$", re.IGNORECASE)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
SAFE = "/%:@!$&'()*+,;=-._~"
_PORTS = {"http": "80", "https": "443"}


def resolve(base: str, href: str) -> tuple[str | None, str]:
    """The address that `href` on the page `base` leads to, or None and the reason: a short slug.

    A link within the page (`#part`) has no address, and neither has mailto: or the like.
    """
    href = _IGNORED.sub("", href).strip(_BLANK)
    if not href or href.startswith("#"):
        return None, "link-self" if href else "link-invalid"
    scheme = _SCHEME.match(href)
    if scheme and scheme[0][:-1].lower() not in ("http", "https", "file"):
        return None, "link-scheme"
    try:
        found = address(urllib.parse.urljoin(base, href))
    except ValueError:
        found = None
    return found, "" if found else "link-invalid"


def fragment(href: str) -> str:
    """The anchor that a reference names; empty if it names none or the top of the page."""
    found = anchor(urllib.parse.unquote(_IGNORED.sub("", href).partition("#")[2]))
    return "" if found.lower() == "top" or found.startswith(":~:") else found


def anchor(name: str) -> str:
    """An HTML id as part of a section's address: without white space, which run files cannot contain."""
    return "".join(filter(str.isprintable, "%20".join(name.split())))[:MAX_URL_BYTES]


@lru_cache(maxsize=1 << 16)  # pages of a site link to the same pages
def address(url: str) -> str | None:
    """The normalised form of an absolute http, https or file URL; None for anything else, or more than 2,048 bytes."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        if not host.isascii():
            host = host.encode("idna").decode("ascii").lower()
    except ValueError:  # includes UnicodeError
        return None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https", "file") or (not host and scheme != "file") or len(url) > MAX_URL_BYTES:
        return None
    if not _HOST.fullmatch(host):
        return None
    authority = host if port is None or str(port) == _PORTS.get(scheme) else f"{host}:{port}"
    path = _INDEX.sub("/", _spelled(_without_dots(parts.path), SAFE)).rstrip("/")
    query = _spelled(parts.query, SAFE + "?")
    found = f"{'https' if scheme == 'http' else scheme}://{authority}{path}{'?' + query if query else ''}"
    return found if len(found) <= MAX_URL_BYTES else None


def addresser(source: Source) -> Callable[[str], str]:
    """Normalises URLs like links, with the fragment where pages may be split; leaves other strings unchanged."""
    sections = source.get("split", "pages") != "pages"

    def normalised(url: str) -> str:
        found = resolve(source.get("base_url") or "file:///", url)[0]
        part = fragment(url) if sections else ""
        return (f"{found}#{part}" if part else found) if found else url.strip()

    return normalised


def site(address: str) -> str:
    """The host of an address; empty for files of a folder without `source.base_url`."""
    return re.split("[/?]", address, maxsplit=3)[2]


def _spelled(part: str, safe: str) -> str:
    quoted = urllib.parse.quote(part.encode("utf-8", "replace"), safe)
    quoted = re.sub("%(?![0-9a-fA-F]{2})", "%25", quoted)
    return _PERCENT.sub(lambda m: chr(b) if (b := int(m[1], 16)) in _UNRESERVED else m[0].upper(), quoted)


def _without_dots(path: str) -> str:
    """`/a/./b/../c` → `/a/c`; urljoin does so for relative references only."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and len(kept) > 1:
            kept.pop()
        elif segment not in (".", ".."):
            kept.append(segment)
    return "/".join(kept) + ("/" if path.endswith(("/.", "/..")) else "")
