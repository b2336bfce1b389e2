"""Labels: lines of query, document and level become queries and judgments."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands.queries import arguments_parser, main
from harp_jax.corpus.labels import read_labels
from harp_jax.corpus.trec import read_qrels, read_queries

LABELS = "# mine\nopen a gate\td1\t1\nopen  a gate\td2\t0\n\nfish\td3\ndry lock\td4\t0\nopen a gate\td2\t2\n"


def test_labels_become_queries_and_judgments(tmp_path, capsys):
    (tmp_path / "labels.tsv").write_text(LABELS)
    queries, qrels = read_labels(str(tmp_path / "labels.tsv"))
    assert queries == {"l1": "open a gate", "l2": "fish", "l3": "dry lock"}
    assert qrels == {"l1": {"d1": 1, "d2": 2}, "l2": {"d3": 1}, "l3": {"d4": 0}}  # the last level of a pair counts
    main(
        arguments_parser().parse_args(["labels", f"--labels={tmp_path / 'labels.tsv'}", f"--output={tmp_path / 'out'}"])
    )
    assert read_queries(str(tmp_path / "out" / "queries.tsv")) == {"l1": "open a gate", "l2": "fish"}
    assert read_qrels(str(tmp_path / "out" / "qrels.txt")) == {"l1": {"d1": 1, "d2": 2}, "l2": {"d3": 1}}
    assert "2 queries with 3 labels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fish\n", "line 1: no 'query"), ("\td1\t1\n", "line 1: no"), ("fish\td 1\t1\n", "line 1: no"),
        ("fish\td1\t1\nfish\td1\tgood\n", "line 2: level 'good'"), ("fish\td1\t99999\n", "line 1: level"),
        ("fish\td1\t0\n", "labels no document as relevant"),
    ],
)  # fmt: skip
def test_other_lines_are_named(tmp_path, text, message):
    (tmp_path / "labels.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels(str(tmp_path / "labels.tsv"))


def test_labels_are_not_lost_to_their_own_collection(tmp_path):
    (tmp_path / "queries.tsv").write_text("fish\td3\t1\n")
    with pytest.raises(InputError, match="it is the input .* which would be lost"):
        main(arguments_parser().parse_args(["labels", f"--labels={tmp_path / 'queries.tsv'}", f"--output={tmp_path}"]))
    assert (tmp_path / "queries.tsv").read_text() == "fish\td3\t1\n"
