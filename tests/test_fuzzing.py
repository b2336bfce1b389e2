"""Mutated inputs to every reader: only `InputError` may be raised; `make faults`: ten thousand per reader.

Mutations imitate a disk, a transfer, an editor, a buggy program or an attacker, and are the same in every run.
"""

import contextlib
import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harp_jax.base.errors import InputError
from tests.support.readers import READERS
from tests.support.steps import steps

MANY_DIGITS = b"9" * 5000  # more digits than Python converts to an integer
INSERTED = [
    *(b"\x00", b"\x0b", b"\x1b[31m", b"\x1c", b"\r", b"\n", b"\t", b" ", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc2\x85"),
    *("\ufeff\u2028\u202e\u200b\U0010ffff".encode(), b"\\ud800", b"\\u0000", b'"', b"'", b"\\", b"{", b"}", b"[", b"]"),
    *(b"{0}", b"{out}", b"{a.b}", b"%s", b"<", b">", b"&#xD800;", b"$(x)", b"../../x", b"/dev/zero", b"~", b":", b"=", b","),
]  # fmt: skip
VALUES = [
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", MANY_DIGITS, b"9" * 30),
    *(b"18446744073709551616", b"2147483648", b"-2147483649", b"1000000000", b"0.1", b"1e-320", b"0x10", b"1_0", b"", b"a"),
    *("٣".encode(), "²".encode(), b"a" * 70_000, b'"\\ud800"', b"[1,2]", b'{"a":1}', b'"x"', b"()", b"('a',)"),
]  # fmt: skip
NESTED = [b"[", b'{"a":', b"<div>", b"{{", b"[[", b"(", b"<a href=x>", b"'''", b"{|\n", b"&amp;"]
CODECS: list[Callable[[bytes], bytes]] = [
    lambda data: data.decode("latin-1").encode("utf-16"),
    lambda data: data.decode("latin-1").encode(),
    lambda data: b"\xef\xbb\xbf" + data,
    *(lambda data, end=end: data.replace(b"\n", end) for end in (b"\r\n", b"\r", b"")),
    lambda data: gzip.compress(data, mtime=0),
    bytes.swapcase,
    lambda data: data[::-1],
    lambda data: b"",
]
WORD, QUOTED = re.compile(rb"[\w.+-]+"), re.compile(rb'"[^"\n]*"')


def mutated(data: bytes, draw: random.Random) -> bytes:
    """One to three changes at a random place: bytes in or for others, a part gone or doubled, another word, a line moved."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randint(0, len(data))
        before, after = data[:at], data[at:]
        what = draw.choice(("insert", "insert", "remove", "duplicate", "word", "word", "word", "line"))
        if what == "insert":
            repeated = draw.choice(NESTED) * draw.choice((20, 3000))
            new = draw.choice((draw.choice(INSERTED), repeated, draw.randbytes(1)))
            data = before + new + after[draw.choice((0, 1)) :]
        elif what == "remove":
            data = draw.choice((before, after, before + after[draw.randint(1, 64) :]))
        elif what == "duplicate":
            data = before + after[: draw.randint(1, 256)] * draw.choice((2, 2, 300)) + after
        elif what == "word":  # or a number or quoted text: an invalid or far too large value, or another word
            place = draw.choice((WORD, QUOTED)).search(data, at)
            new = draw.choice([*VALUES, *draw.sample(WORD.findall(data) or [b"a"], 1) * 5])
            data = data[: place.start()] + new + data[place.end() :] if place else data + new
        else:  # removed, doubled, moved or copied to the end
            lines, number = data.split(b"\n"), before.count(b"\n")
            taken = lines[number]
            lines[number : number + 1] = [taken] * draw.choice((0, 0, 2))
            data = b"\n".join([*lines, *[taken] * draw.choice((0, 1))])
    return data if draw.random() < 0.9 else draw.choice(CODECS)(data)


def replace(path: Path, content: bytes) -> None:
    """Writes a new file, so that its inode changes; the reader may have removed the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("inputs", [20, pytest.param(10_000, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", READERS)
def test_mutated_inputs_are_read_or_refused(name, inputs, tmp_path):
    """The valid input of a reader is read, then mutations of it. A failure names its seed."""
    reader = READERS[name]
    valid = reader.valid(tmp_path)
    files = sorted(valid)
    reader.read(tmp_path)
    for number in range(inputs):
        file, seed = files[number % len(files)], f"{name} {number}"
        replace(tmp_path / file, mutated(valid[file], random.Random(seed)))
        try:
            reader.read(tmp_path)
        except InputError as error:
            assert str(error).strip()
        except Exception as error:
            raise AssertionError(f"{file}, mutated with the seed {seed!r}: {error!r}") from error
        finally:
            replace(tmp_path / file, valid[file])


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        ("vocabulary", "tokenizer_config.json", b'"strip_accents": null', b'"strip_accents": 1', "not an instance of 'bool'"),
        ("tokenizer.json", "tokenizer.json", b'"cat"', b'"\\ud800"', "is not a tokenizer"),
        ("tokenizer.json", "tokenizer.json", b'"[UNK]": 1', b'"[X]": 1', "Missing [[]UNK[]] token"),
        ("tokenizer.json", "tokenizer.json", b'{\n      "[CLS]"', b'{\n      "[C"', "no entry found"),
        ("labels", "labels.tsv", b"\t1\n", "\t²\n".encode(), "line 2: level '²' is not a small integer"),
        ("config.json", "config.json", b'"vocab_size": 46', b'"vocab_size": "a"', "'vocab_size' expected int, got str"),
        ("config.json", "config.json", b'"num_hidden_layers": 1', b'"num_hidden_layers": 1000000000', "from 1 to 1000"),
        ("config.json", "config.json", b'"layer_norm_eps": 1e-12', b'"layer_norm_eps": NaN', "not a number from 0.0 to 1.0"),
        ("config.json", "config.json", b'"num_labels": 1', b'"num_labels": 2147483648', "more than 10,000"),
        ("config.json", "config.json", b'"model_type": "bert"', b'"model_type": []', "model_type"),
    ],
)  # fmt: skip
def test_what_fuzzing_found(name, file, old, new, message, tmp_path):
    reader = READERS[name]
    valid = reader.valid(tmp_path)[file]
    assert old in valid
    replace(tmp_path / file, valid.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        reader.read(tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("name", READERS)
def test_repeating_a_part_of_the_input_costs_in_proportion(name, tmp_path):
    """From 200 to 400 repeats, a quadratic reader needs four times the steps of 100 to 200, a linear one twice."""
    reader = READERS[name]
    valid = reader.valid(tmp_path)
    reader.read(tmp_path)  # warm-up: imports

    def read() -> None:
        with contextlib.suppress(InputError):
            reader.read(tmp_path)

    draw = random.Random(name)
    for _ in range(12):
        file = draw.choice(sorted(valid))
        data = valid[file]
        at = draw.randrange(len(data) + 1)
        inserted, excerpt = draw.choice(INSERTED), data[at : at + draw.choice([3, 20])]
        unit = draw.choice([*NESTED, inserted, excerpt, data.split(b"\n")[0] + b"\n"])
        counts = []
        for times in (100, 200, 400):
            replace(tmp_path / file, data[:at] + unit * times + data[at:])
            counts.append(steps(read))
        replace(tmp_path / file, data)
        assert counts[2] - counts[1] <= 3 * max(counts[1] - counts[0], 0) + 3000, (file, at, unit, counts)
