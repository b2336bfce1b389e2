"""Some mutated inputs to every reader, and those for which fuzzing found a traceback; tests/faults has ten thousand of each."""

import gzip

import pytest

from harp_jax.base.errors import InputError
from tests.support.fuzzing import fuzz, replace
from tests.support.readers import READERS

INPUTS = 20
MANY_DIGITS = b"9" * 5000  # more than Python turns into an integer
DEEP = b"[" * 5000


@pytest.mark.parametrize("name", READERS)
def test_mutated_inputs_are_read_or_refused(name, tmp_path):
    fuzz(name, tmp_path / "input", max(3, int(READERS[name].share * INPUTS)))


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        ("documents.gz", "docs.jsonl.gz", gzip.compress(b"")[:4], b"\x1f\x8b\x08\x00\x00\x00", "is damaged after line"),
        ("anchors", "anchors.tsv", b"\t12\n", b"\t" + MANY_DIGITS + b"\n", "line 3: count '9999.* is not a whole number"),
        ("tuned parameters", "tuned.json", b"0.9", b'{"a": 1}', "holds no numbers by parameter; tune again"),
        ("tuned parameters", "tuned.json", b'"folds": {', b'"folds": [], "x": {', "holds no numbers by parameter; tune again"),
        ("links", "linked.jsonl", b'"p1"', DEEP, "line 1: no .*recursion"),
        ("weights of words", "ranking_svm.tsv", b"0.5", b"nan", "line 1: the weight nan is not a number of 0 or more"),
        ("LinkLearn", "model.json", b"\n", b"\n]", "model.json is not JSON"),
        ("LinkLearn", "model.json", b'"b": 0.4', b'"b": 4', "is no Okapi: K is 0 or more, B is 0 to 1"),
        ("vocabulary", "tokenizer_config.json", b'"strip_accents": null', b'"strip_accents": 1', "are true, false or null"),
        ("tokenizer.json", "tokenizer.json", b'"cat"', b'"\\ud800"', "a token contains half a surrogate pair"),
        ("labels", "labels.tsv", b"\t1\n", "\t²\n".encode(), "line 2: level '²' is no small integer"),
        ("figures", "table.json", b"0.25", b"NaN", "a value of ours is no finite number"),
        ("workdir", "metrics.jsonl", b": 0.5}", b': "x"}', "line 1: damaged .a metric is no number"),
        ("vectors", "vectors.txt", b"3 2\n", b"3 " + MANY_DIGITS + b"\n", "holds a number that is not finite"),
        ("config.json", "config.json", b'"vocab_size": 46', b'"vocab_size": "a"', "vocab_size is 'a', not a whole number"),
        ("config.json", "config.json", b'"num_hidden_layers": 1', b'"num_hidden_layers": 1000000000', "of 1 to 1000"),
        ("config.json", "config.json", b'"layer_norm_eps": 1e-12', b'"layer_norm_eps": NaN', "not a number of 0.0 to 1.0"),
        ("workdir", "config.json", b'"steps"', b'"a.b"', "config.json is no training config"),
        ("records", "record", b"pos_query", b"pos_quer", "a record of task rqp in .* is no training example"),
        ("overrides", "overrides", b"('rqp',)", b"-" * 3000 + b"1", "check --config and its fields"),
        ("records of a plan", "out/.plan/first.json", b"{", b"", None),
        ("records of a plan", "out/.plan/first.json", b'"seconds"', b'"second"', None),
        ("multistream", "index.txt", b":1:", b":" + MANY_DIGITS + b":", "expected 'byte:page:title'"),
        ("term weights", "meta.json", b'"belongs_to"', b'"belongs"', "meta.json is damaged; make the term weights again"),
    ],
)  # fmt: skip
def test_what_fuzzing_found(name, file, old, new, message, tmp_path):
    reader, directory = READERS[name], tmp_path / "input"
    directory.mkdir()
    valid = reader.write(directory)[file]
    assert old in valid
    replace(directory / file, valid.replace(old, new, 1))
    if message is None:
        return reader.read(directory)
    with pytest.raises(InputError, match=message):
        reader.read(directory)
