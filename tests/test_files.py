"""Files: no input is lost, nothing hangs, every error is one line."""

import bz2
import dataclasses
import fcntl
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait

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
        ("/dev/null", "is a device, a pipe or a socket; name a file"), ("pipe", "is a device"), ("link", "is a device"),
        ("", "it is a directory; name a file"), ("gs://bucket/run.trec", "buckets are not supported"),
        ("kept/run.trec", "Not a directory"), ("round", "symbolic links"),
        ("run.trec.gz", "outputs are not compressed; name it without .gz"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_plain_files_are_refused(tmp_path, name, said):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "kept").write_text("kept")
    before = sorted(os.listdir(tmp_path))
    assert said in refusal(name if ":" in name else str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "kept").read_text() == "kept"


def test_any_other_name_is_written_and_a_link_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "there").write_text("old")
    os.chmod(tmp_path / "data" / "there", 0o640)
    for name in ("there", "absent"):
        (tmp_path / name).symlink_to(tmp_path / "data" / name)
    for name in ("[a]*?.trec", "né ü.trec", "-r", "there", "absent"):
        write(tmp_path / name)
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "absent").is_symlink() and (tmp_path / "data" / "absent").read_text() == "new"
    assert (tmp_path / "there").is_symlink() and os.stat(tmp_path / "data" / "there").st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "read, name, content, said",
    [
        (read_lines, "pipe", None, "is a device, a pipe or a socket"),
        (read_json, "pipe", None, "is a device, a pipe or a socket"),
        (read_lines, "bomb.gz", gzip.compress(b"one\n" + b"x" * (2 << 20)), "line 2: longer than 1 MiB"),
        (read_lines, "docs.jsonl.zst", b"\x28\xb5\x2f\xfd\x00", ".zst is not supported"),
        (read_lines, "run", b"q1 Q0 d1 1 2.0 a\rq1 Q0 d2 2 1.0 a\r", "line 1: a carriage return"),
        (read_json, "a.json", b'{\n"a": 1,\n"b": }', "is not a JSON object (Expecting value: line 3"),
        (read_json, "a.json", b"[1]", "is not a JSON object"),
        (read_json, "a.json", b"[" * 100_000, "is not a JSON object"),
    ],
)  # fmt: skip
def test_inputs_that_never_end_or_are_damaged_are_named(tmp_path, monkeypatch, read, name, content, said):
    monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
    os.mkfifo(tmp_path / "pipe")
    if content:
        (tmp_path / name).write_bytes(content)
    message = refusal(str(tmp_path / name), call=read)
    assert str(tmp_path / name) in message and said in message


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


def test_json_is_checked_when_it_is_read(tmp_path):
    path, good = tmp_path / "search.json", {"name": "x", "weights": {"a": 1}, "fields": ["b"], "length": None}
    path.write_text(json.dumps(good))
    assert read_json_as(Settings, str(path)) == Settings("x", {"a": 1.0}, ("b",))
    for change, said in (
        ({"name": 3}, "name is '3', not of the type str"), ({"weights": {"a": float("nan")}}, "weights.a is 'nan'"),
        ({"weights": [1]}, "weights is '[1]'"), ({"fields": ["b", 1]}, "fields[1] is '1'"), ({"length": True}, "length is 'True'"),
        ({"depth": 1}, "it has the unknown field depth"),
    ):  # fmt: skip
        path.write_text(json.dumps(good | change))
        assert f"search.json is damaged: {said}" in refusal(Settings, str(path), call=read_json_as)
    path.write_text('{"name": "x"}')
    assert "it has no field weights" in refusal(Settings, str(path), call=read_json_as)
    assert within("site", "survey/docs.jsonl", "x") == "site/survey/docs.jsonl"
    for name in ("/etc/passwd", "../other", "a/../../b", ""):
        assert "is not below site" in refusal("site", name, "site/search.json", call=within)


def test_temporary_files_of_a_killed_process_are_removed_by_the_next_one(tmp_path):
    code = "with replacing(sys.argv[1]) as file: file.write('half'), os.kill(os.getpid(), 9)"
    python("-c", CHILD + code, tmp_path / "words", status=-signal.SIGKILL)
    assert [path.name[:10] for path in tmp_path.iterdir()] == ["words.tmp."]
    with replacing(str(tmp_path / "words")) as first:
        write(tmp_path / "words", "second")  # leaves the file of a process that is alive
        first.write("first")
    assert os.listdir(tmp_path) == ["words"] and (tmp_path / "words").read_text() == "first"


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
    (tmp_path / "model.tmp.mine.old").mkdir()
    with pytest.raises(ZeroDivisionError), output_folder(str(tmp_path / "model")):
        raise ZeroDivisionError
    assert (tmp_path / "model" / "weights").read_text() == left
    assert [path.name for path in tmp_path.glob("*.old")] == ["model.tmp.mine.old"]


def test_what_another_process_has_renamed_is_left_to_it(tmp_path):
    (tmp_path / "model.tmp.00000000.old").mkdir()
    write_folder(tmp_path / "new")
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(write_folder, tmp_path / "model", "again")
        assert wait([waiting], 0.3).not_done and (tmp_path / "model.tmp.00000000.old").exists()
        os.rename(tmp_path / "new", tmp_path / "model")
        os.close(other)
    waiting.result()
    assert os.listdir(tmp_path) == ["model"] and (tmp_path / "model" / "weights").read_text() == "again"


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
    assert full.stderr.count("\n") == 1, full.stderr


def test_names_that_the_locale_cannot_print_are_escaped():
    code = "with ending_well(): print('r\\xe9sum\\u2713 \\udcff')"
    assert python("-c", CHILD + code, PYTHONIOENCODING="ascii").stdout == "r\\xe9sum\\u2713 \\udcff\n"
