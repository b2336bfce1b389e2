"""Mutated inputs to a reader: only `InputError` may be raised. The inputs are the same in every run.

Mutations imitate a disk, a transfer, an editor, a buggy program or an attacker. An edit is (kind, where, which); the last two are
16-bit numbers. Edits are drawn from a seed, not by hypothesis, which takes 2 ms per input; most readers need a tenth of that.
"""

import gzip
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from harp_jax.base.errors import InputError
from tests.support.readers import READERS

STEPS = 1 << 16
INSERTED = [
    *(b"\x00", b"\x0b", b"\x1b[31m", b"\x1c", b"\r", b"\n", b"\t", b" ", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc2\x85"),
    *("\ufeff\u2028\u202e\u200b\U0010ffff".encode(), b"\\ud800", b"\\u0000", b'"', b"'", b"\\", b"{", b"}", b"[", b"]"),
    *(b"{0}", b"{out}", b"{a.b}", b"%s", b"<", b">", b"&#xD800;", b"$(x)", b"../../x", b"/dev/zero", b"~", b":", b"=", b","),
]  # fmt: skip
VALUES = [
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000, b"9" * 30),
    *(b"18446744073709551616", b"2147483648", b"-2147483649", b"1000000000", b"0.1", b"1e-320", b"0x10", b"1_0", b"", b"a"),
    *("٣".encode(), "²".encode(), b"a" * 70_000, b'"\\ud800"', b"[1,2]", b'{"a":1}', b'"x"', b"()", b"('a',)"),
]  # fmt: skip
NESTED = [b"[", b'{"a":', b"<div>", b"{{", b"[[", b"(", b"<a href=x>", b"'''", b"{|\n", b"&amp;"]
CODECS: list[Callable[[bytes], bytes]] = [
    lambda data: data.decode("latin-1").encode("utf-16"),
    lambda data: data.decode("latin-1").encode("utf-32-le"),
    lambda data: data.decode("latin-1").encode(),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: data.replace(b"\n", b"\r"),
    lambda data: data.replace(b"\n", b""),
    lambda data: gzip.compress(data, mtime=0),
    bytes.swapcase,
    lambda data: data[::-1],
    lambda data: b"",
]
TOKEN = re.compile(rb"[\w.+-]+")


def flip(data: bytes, at: int, which: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 + which % 255)]) + data[at + 1 :] if at < len(data) else data


def cut(data: bytes, at: int, which: int) -> bytes:
    return data[:at] if which % 2 else data[at:]


def remove(data: bytes, at: int, which: int) -> bytes:
    return data[:at] + data[at + 1 + which % 64 :]


def duplicate(data: bytes, at: int, which: int) -> bytes:
    return data[:at] + data[at : at + 1 + which % 256] * (2 if which % 5 else 300) + data[at:]


def insert(data: bytes, at: int, which: int) -> bytes:
    return data[:at] + INSERTED[which % len(INSERTED)] + data[at:]


def nest(data: bytes, at: int, which: int) -> bytes:
    return data[:at] + NESTED[which % len(NESTED)] * (3000 if which % 3 else 20) + data[at:]


def value(data: bytes, at: int, which: int) -> bytes:
    """Replaces a word or number with a value that is invalid or far too large."""
    found = TOKEN.search(data, at)
    new = VALUES[which % len(VALUES)]
    return data[: found.start()] + new + data[found.end() :] if found else data + new


def quoted(data: bytes, at: int, which: int) -> bytes:
    """Replaces a quoted text with a value of another type."""
    found = re.compile(rb'"[^"\n]*"').search(data, at)
    if not found:
        return value(data, at, which)
    return data[: found.start()] + VALUES[which % len(VALUES)] + data[found.end() :]


def other(data: bytes, at: int, which: int) -> bytes:
    """Replaces a word with another word of the file: a key with a value, an id with another."""
    words = TOKEN.findall(data)
    found = TOKEN.search(data, at)
    return data[: found.start()] + words[which % len(words)] + data[found.end() :] if found else data


def line(data: bytes, at: int, which: int) -> bytes:
    """Removes a line, duplicates it, or moves it to the end."""
    lines = data.split(b"\n")
    number = data.count(b"\n", 0, at)
    taken = lines.pop(number)
    if which % 3 == 1:
        lines[number:number] = [taken, taken]
    elif which % 3 == 2:
        lines.append(taken)
    return b"\n".join(lines)


def encode(data: bytes, _at: int, which: int) -> bytes:
    return CODECS[which % len(CODECS)](data)


KINDS = (flip, cut, remove, duplicate, insert, nest, value, value, quoted, quoted, other, line, encode)
Edit = tuple[int, int, int]


def edits_of(seed: str) -> list[Edit]:
    """One to three edits, determined by the seed."""
    draw = random.Random(seed)
    count = draw.choice((1, 1, 2, 3))
    return [(draw.randrange(len(KINDS)), draw.randrange(STEPS), draw.randrange(STEPS)) for _ in range(count)]


def mutated(data: bytes, edits: Sequence[Edit]) -> bytes:
    for kind, where, which in edits:
        data = KINDS[kind](data, where * (len(data) + 1) // STEPS, which)
    return data


def fuzz(name: str, directory: Path, inputs: int) -> None:
    """Reads the valid input of a reader, then `inputs` mutations of it. A failure names its edits."""
    reader = READERS[name]
    valid = reader.write(directory)
    files = sorted(valid)
    reader.read(directory)
    for number in range(inputs):
        edits, file = edits_of(f"{name} {number}"), files[number % len(files)]
        replace(directory / file, mutated(valid[file], edits))
        try:
            reader.read(directory)
        except InputError as error:
            assert str(error).strip()
        except Exception as error:
            raise AssertionError(f"{name}: {file} with the edits {edits}: {error!r}") from error
        finally:
            replace(directory / file, valid[file])


def replace(path: Path, content: bytes) -> None:
    """Writes a new file, so that its inode changes; the reader may have removed the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.remove(path)
    path.write_bytes(content)
