"""Files: no input is lost, nothing hangs, every error is one line."""

import bz2
import dataclasses
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys

import pytest

from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_folder, read_json, read_json_as, replacing, within
from tests.support.commands import python


def write(path: object, text: str = "new") -> None:
    with replacing(str(path)) as file:
        file.write(text)


def read_lines(path: str) -> list:
    return list(lines(path))


CHILD = """
import os, sys
from harp_jax.base.cli import ending_well
from harp_jax.base.files import lines, output_folder, replacing
"""


def refusal(*arguments, call=write) -> str:
    with pytest.raises((InputError, OSError)) as error:
        call(*arguments)
    return str(error.value)


@pytest.mark.parametrize(
    "name, said",
    [
        ("link", "is a device, a pipe or a socket; name a file"), ("", "it is a directory; name a file"),
        ("round", "symbolic links"), ("run.trec.gz", "outputs are not compressed; name it without .gz"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_plain_files_are_refused(tmp_path, name, said):
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    assert said in refusal(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["link", "round"]


def test_any_other_name_is_written_and_a_link_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "there").write_text("old")
    os.chmod(tmp_path / "data" / "there", 0o640)
    (tmp_path / "there").symlink_to(tmp_path / "data" / "there")
    for name in ("[a]*?.trec", "né ü.trec", "-r", "there"):
        write(tmp_path / name)
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "there").is_symlink() and os.stat(tmp_path / "data" / "there").st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "read, content, said",
    [
        (read_lines, None, "is a device, a pipe or a socket"), (read_json, None, "is a device, a pipe or a socket"),
        (read_lines, b"one\n" + b"x" * (2 << 20), "line 2: longer than 1 MiB"),
        (read_lines, b"q1 Q0 d1 1 2.0 a\rq1 Q0 d2 2 1.0 a\r", "line 1: a carriage return"),
        (read_json, b'{\n"a": 1,\n"b": }', "is not a JSON object (Expecting value: line 3"),
        (read_json, b"[" * 100_000, "is not a JSON object"),
    ],
)  # fmt: skip
def test_inputs_that_never_end_or_are_damaged_are_named(tmp_path, monkeypatch, read, content, said):
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "input"
    path.write_bytes(content) if content else os.mkfifo(path)
    message = refusal(str(path), call=read)
    assert str(path) in message and said in message


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_all_streams_of_a_compressed_file_are_read_or_the_damage_is_named(tmp_path, suffix, pack):
    """Python's bz2 and lzma end in silence at a damaged header of a later stream, and lose what follows."""
    parts = [pack(f"line {n}\n".encode() * 1000) for n in range(3)]
    path = tmp_path / f"run{suffix}"
    path.write_bytes(b"".join(parts))
    whole = read_lines(str(path))
    assert len(whole) == 3000 and whole[-1] == (3000, "line 2") and read_lines(str(tmp_path / "run")) == whole
    damaged = bytearray(path.read_bytes())
    damaged[len(parts[0])] ^= 0xFF
    for data in (bytes(damaged), b"".join(parts) + b"rest", b"".join(parts)[:-1]):
        path.write_bytes(data)
        assert f"run{suffix} is damaged after line" in refusal(str(path), call=read_lines)
    if suffix == ".xz":
        path.write_bytes((b"\0" * 8).join(parts) + b"\0" * 4)  # padding that the format allows
        assert read_lines(str(path)) == whole


@dataclasses.dataclass(frozen=True)
class Settings:
    name: str
    weights: dict[str, float]
    fields: tuple[str, ...] = ()
    length: int | None = None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 3}, "name is '3', not of the type str"), ({"weights": {"a": float("nan")}}, "weights.a is 'nan'"),
        ({"fields": ["b", 1]}, "fields[1] is '1'"), ({"length": True}, "length is 'True'"),
        ({"depth": 1}, "it has the unknown field depth"),
    ],
)  # fmt: skip
def test_json_is_checked_when_it_is_read(tmp_path, change, said):
    path, good = tmp_path / "search.json", {"name": "x", "weights": {"a": 1}, "fields": ["b"], "length": None}
    path.write_text(json.dumps(good))
    assert read_json_as(Settings, str(path)) == Settings("x", {"a": 1.0}, ("b",))
    path.write_text(json.dumps(good | change))
    assert f"search.json is damaged: {said}" in refusal(Settings, str(path), call=read_json_as)


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b", "", "\ud800", "a\0b"])
def test_a_name_in_a_file_does_not_lead_out_of_its_folder(name):
    assert within("site", "survey/docs.jsonl", "x") == "site/survey/docs.jsonl"
    assert "is not below site" in refusal("site", name, "site/search.json", call=within)


@pytest.mark.parametrize("opened, inside", [(replacing, ""), (output_folder, "/weights")])
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path, opened, inside):
    code = f"with {opened.__name__}(sys.argv[1]): os.kill(os.getpid(), 9)"
    python("-c", CHILD + code, tmp_path / "words", status=-signal.SIGKILL)
    assert [path.name[:10] for path in tmp_path.iterdir()] == ["words.tmp."]
    with opened(str(tmp_path / "words")) as first:
        (write_folder if inside else write)(tmp_path / "words")  # leaves what a living process has not finished
        write(getattr(first, "name", first) + inside, "first")
    assert os.listdir(tmp_path) == ["words"] and (tmp_path / f"words{inside}").read_text() == "first"


def test_the_output_of_another_command_is_read():
    command = f"{sys.executable} -c '{CHILD}print(list(lines(sys.argv[1])))' <(echo one)"
    assert subprocess.run(["bash", "-c", command], capture_output=True, text=True).stdout == "[(1, 'one')]\n"


@pytest.mark.parametrize(
    "how, renames, left", [(signal.SIGINT, 1, "old"), (signal.SIGKILL, 1, "old"), (signal.SIGKILL, 2, "new")]
)
def test_no_end_between_or_after_the_renames_loses_a_folder(tmp_path, how, renames, left):
    """An interrupt puts the old folder back; after a kill, the next command does."""
    code = """if True:
        rename, done = os.rename, []
        def ended(*paths):
            rename(*paths)
            done.append(paths)
            len(done) == 1 + int(sys.argv[2]) and os.kill(os.getpid(), int(sys.argv[3]))
        os.rename = ended
        for text in ("old", "new"):
            with output_folder(sys.argv[1]) as folder, open(f"{folder}/weights", "w") as file:
                file.write(text)
    """
    python("-c", CHILD + code, tmp_path / "model", renames, int(how), status=-how)
    assert how != signal.SIGINT or os.listdir(tmp_path) == ["model"]
    with pytest.raises(ZeroDivisionError), output_folder(str(tmp_path / "model")):
        raise ZeroDivisionError
    assert (tmp_path / "model" / "weights").read_text() == left and not list(tmp_path.glob("*.old"))


def write_folder(path: object, text: str = "ours") -> None:
    with output_folder(str(path)) as folder:
        write(f"{folder}/config.json", '{"harp_jax_version": "1"}')
        write(f"{folder}/weights", text)


@pytest.mark.parametrize("name", ["weights", "weights-2"])
def test_a_folder_that_somebody_trained_further_is_not_replaced(tmp_path, name):
    """A changed file, or an additional one: `harp_jax_version` in config.json is not enough to replace the folder."""
    write_folder(tmp_path / "model")
    write(tmp_path / "model" / name, "theirs")
    said = refusal(tmp_path / "model", call=write_folder)
    assert f"it holds {name}, which was changed or was not written by harp_jax" in said
    assert (tmp_path / "model" / name).read_text() == "theirs"


def test_a_full_disk_is_one_line_and_costs_nothing(tmp_path):
    code = "with ending_well(), replacing(sys.argv[1]) as file: file.write('x' * 100_000)"
    (tmp_path / "run").write_text("old")
    error = python("-c", CHILD + code, tmp_path / "run", status=2, limit="-f 4").stderr
    assert error.count("\n") == 1 and "free space and run the same command again" in error
    assert (tmp_path / "run").read_text() == "old" and os.listdir(tmp_path) == ["run"]
    words = [sys.executable, "-m", "harp_jax", "--help"]
    full = subprocess.run(words, stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
    assert full.returncode == 2 and full.stderr.startswith("error: cannot write the output: No space left")


def test_names_that_the_locale_cannot_print_are_escaped():
    code = "with ending_well(): print('r\\xe9sum\\u2713 \\udcff')"
    assert python("-c", CHILD + code, PYTHONIOENCODING="ascii").stdout == "r\\xe9sum\\u2713 \\udcff\n"
