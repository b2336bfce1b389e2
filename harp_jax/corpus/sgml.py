"""TREC's documents and topics in SGML, as on its disks: `<DOC><DOCNO> FT911-3 </DOCNO> … </DOC>` and `<top> <num> Number: 301 …`.

For Robust04 name the folder with FT, FR94, FBIS and LATIMES as they are on disks 4 and 5 (without the Congressional Record), packed
(.z, .0z, .gz) or not, and the topics `04.testset`. Where the data of ir_datasets is set up, irds:disks45/nocr/trec-robust-2004
stands for all three files.
"""

import html
import re
import shutil
import subprocess
from collections.abc import Iterator

from harp_jax.base.errors import InputError
from harp_jax.base.files import open_bytes, raw_lines
from harp_jax.corpus.text_files import checked_id

PACKED = re.compile(r"\.\d?z$", re.IGNORECASE)  # of Unix compress, as on the disks: ft911_1.z, fr940104.0z
START, END = b"<DOC>", b"</DOC>"
TITLES = re.compile(r"<(headline|title|hl|head|ttl|ti|h3)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
BODIES = re.compile(r"<(text|lp|leadpara)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
NUMBER = re.compile(r"<docno>(.*?)</docno>", re.IGNORECASE | re.DOTALL)
MARKUP = re.compile(r"<!--.*?-->|<[^<>]*>", re.DOTALL)
TOPIC = re.compile(r"<top>(.*?)</top>", re.IGNORECASE | re.DOTALL)
TOPIC_NUMBER = re.compile(r"<num>\s*(?:number:)?\s*(.*?)\s*(?=<|\Z)", re.IGNORECASE | re.DOTALL)
TOPIC_TITLE = re.compile(r"<title>\s*(?:topic:)?\s*(.*?)\s*(?=<|\Z)", re.IGNORECASE | re.DOTALL)


def is_sgml(path: str) -> bool:
    """Whether a file begins with a TREC document, or is packed by Unix compress, as no other format here."""
    if PACKED.search(path):
        return True
    try:
        return next((line for _, line in raw_lines(path) if line.strip()), b"").lstrip().upper().startswith(START)
    except (InputError, OSError):
        return False  # its reader reports the error


def documents(path: str) -> Iterator[tuple[int, bytes]]:
    """(line of its start, bytes) of each <DOC>…</DOC>. Raises InputError for a document without an end."""
    started, parts = 0, list[bytes]()
    for number, line in _unpacked(path) if PACKED.search(path) else raw_lines(path):
        word = line.strip().upper()
        if word.startswith(START):
            if started:
                raise InputError(f"{path}, line {started}: <DOC> without </DOC>; correct it, or copy the file again")
            started, parts = number, []
        if started:
            parts.append(line)
        if started and word.endswith(END):
            yield started, b"".join(parts)
            started = 0
    if started:
        raise InputError(f"{path}, line {started}: <DOC> without </DOC>; the file is truncated, copy it again")


def _unpacked(path: str) -> Iterator[tuple[int, bytes]]:
    """`raw_lines` of a file that Unix compress packed."""
    if not (gzip := shutil.which("gzip")):
        raise InputError(f"cannot read {path}: Unix compress packed it, and gzip, which unpacks it, is not installed")
    with open_bytes(path) as file, subprocess.Popen([gzip, "-dc"], stdin=file, stdout=subprocess.PIPE) as unpacked:
        assert unpacked.stdout is not None
        yield from enumerate(unpacked.stdout, 1)
        if unpacked.wait():
            raise InputError(f"{path} is damaged: gzip -dc cannot unpack it; copy it again")


def parse(where: str, data: bytes) -> dict[str, str]:
    """A document's "id", "title", "url" (empty) and "body": the text of its <TEXT> and lead paragraphs, without markup. Without
    these, all its text counts. Texts that are not UTF-8 are read as Latin-1. Raises InputError without a DOCNO."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    number = NUMBER.search(text)
    if not number:
        raise InputError(f"{where}: a document without <DOCNO>; correct or remove it")
    bodies = [body for _, body in BODIES.findall(text)] or [text[number.end() :]]
    title = TITLES.search(text)
    heading, body = plain(title[2]) if title else "", " ".join(map(plain, bodies))
    return {"id": number[1].strip(), "title": heading, "url": "", "body": body}


def plain(text: str) -> str:
    """Text without markup, on one line."""
    return " ".join(html.unescape(MARKUP.sub(" ", text)).split())


def topics(path: str, text: str) -> dict[str, str]:
    """number → title of the topics. Raises InputError for one without a number or title, and for one that is listed twice."""
    titles: dict[str, str] = {}
    for order, topic in enumerate(TOPIC.findall(text), 1):
        number, title = (field.search(topic) for field in (TOPIC_NUMBER, TOPIC_TITLE))
        if not (number and number[1] and title and title[1]):
            wrong = "no <num> or no <title>; write '<top> <num> Number: 1 <title> text </top>'"
            raise InputError(f"{path}, topic {order}: {wrong}")
        if (qid := checked_id(path, number[1], "query")) in titles:
            raise InputError(f"{path}: topic {qid} is listed twice; remove one")
        titles[qid] = plain(title[1])
    return titles
