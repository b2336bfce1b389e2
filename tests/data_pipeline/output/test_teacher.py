"""Teacher scores for the pairs of a job: which negatives stay, what training reads, and resuming."""

import jax
import numpy as np
import pytest

from data_pipeline.engine.local import SerialEngine
from data_pipeline.output.inspection import inspect
from data_pipeline.output.teacher import TeachOptions, chosen, score_pairs, teach
from data_pipeline.pipeline import generate
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import load_config
from harp_jax.input.records import job_tokenizer, parts, read_manifest
from harp_jax.input.tfrecords import RecordReader
from harp_jax.ranking.scorers import BiEncoderScorer
from harp_jax.training.train import train
from tests.support import corpus
from tests.support.generation_job import hashes, records
from tests.support.tiny_bert import save_encoder


class Overlap:
    """A `Scorer`: `weight` times the number of document tokens that are in the query; interrupted after `calls` calls."""

    max_length, truncated_documents = 512, 0

    def __init__(self, tokenizer, weight=1, calls=1 << 30):
        self.tokenizer, self.weight, self.calls = tokenizer, weight, calls

    def encode_queries(self, texts):
        return [np.array(self.tokenizer.encode(text), np.int32) for text in texts]

    def encode_documents(self, texts, limit=None):
        return self.encode_queries(texts)

    def room(self, query):
        return self.max_length

    def pair(self, query, document):
        return query, document

    def score(self, pairs, bar=None):
        if not self.calls:
            raise KeyboardInterrupt
        self.calls -= 1
        return np.array([self.weight * np.isin(document, query).sum() for query, document in pairs], np.float32)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = corpus.write(tmp_path_factory.mktemp("teach"))
    config = corpus.config(folder, tasks=("adp", "mlm"), workers=1, hard_negatives=3, validation_fraction=0.2)
    generate(config, str(folder / "pairs"), SerialEngine)
    return folder


@pytest.fixture(scope="module")
def tokenizer(job):
    return job_tokenizer(str(job / "pairs"), read_manifest(str(job / "pairs")))


def documents(row):
    return [row["neg_doc"].tolist(), *(each.tolist() for each in parts(row["more_docs"], row["more_lengths"]))]


def adp_records(directory):
    return records(directory, "adp_train", "adp_validation")


def options(job, **given) -> TeachOptions:
    return TeachOptions(str(job / "pairs"), ("overlap",), temperature=2.0, **given)


def test_every_pair_keeps_its_documents_and_has_their_scores(job, tokenizer):
    scorers = [Overlap(tokenizer), Overlap(tokenizer, weight=3)]  # the mean: 2
    score_pairs(options(job), scorers, str(job / "taught"))
    before, after = ({row["key"]: row for row in adp_records(job / name)} for name in ("pairs", "taught"))
    assert before.keys() == after.keys() and len(after) > 100
    for key, row in after.items():
        assert documents(row) == documents(before[key])
        shared = [np.isin(each, row["pos_query"]).sum() for each in (row["pos_doc"], *documents(row))]
        assert row["teacher"].tolist() == shared
    given = (("adp",), "train", 1, 128, "document", 0, tokenizer.template, 2)
    for group in RecordReader((str(job / "taught"),), *given, taught=True).read(0, "adp", 0, 50):
        (query,) = {tuple(each.query) for each in group.sequences}
        assert list(group.teacher) == [np.isin(each.document, query).sum() for each in group.sequences]
        assert len(group.teacher) <= 3


def test_a_resumed_command_makes_the_missing_and_damaged_shards_and_refuses_other_options(job, tokenizer):
    output = job / "resumed"
    with pytest.raises(KeyboardInterrupt):
        score_pairs(options(job), [Overlap(tokenizer, calls=1)], str(output))  # ends in the second shard
    with pytest.raises(InputError, match="was begun with hardest=0, now 1"):
        score_pairs(options(job, hardest=1), [Overlap(tokenizer)], str(output))
    (shard,) = output.glob("harp-adp_*")  # the first of the two was finished
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    score_pairs(options(job), [Overlap(tokenizer)], str(output))
    score_pairs(options(job), [Overlap(tokenizer)], str(job / "whole"))
    assert hashes(output) == hashes(job / "whole") and inspect(str(output))


def test_a_resumed_command_writes_the_cosines_of_a_whole_run(job, tokenizer, tmp_path, monkeypatch):
    """The last bits of a vector depend on its batch, so vectors of the shards before must not be reused."""
    given = TeachOptions(str(job / "pairs"), (save_encoder(str(tmp_path / "encoder"), tokenizer, 128),), cosine=True)
    teach(given, str(tmp_path / "whole"))
    calls, score = [], BiEncoderScorer.score

    def killed(self, pairs, bar=None):
        calls.append(pairs)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(self, pairs, bar)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(BiEncoderScorer, "score", killed)
        teach(given, str(tmp_path / "resumed"))
    teach(given, str(tmp_path / "resumed"))
    assert hashes(tmp_path / "whole") == hashes(tmp_path / "resumed")


def test_negatives_above_the_positive_go_and_the_hardest_of_the_others_stay(job, tokenizer):
    assert chosen(2.0, [3.0, 1.0, 1.5, 2.0], True, 0) == [1, 2]
    assert chosen(2.0, [3.0, 1.0, 1.5], False, 2) == [0, 2]
    counts = score_pairs(options(job, drop_above=True, hardest=1), [Overlap(tokenizer)], str(job / "hardest"))
    pairs, before, manifest = adp_records(job / "hardest"), *(read_manifest(str(job / x)) for x in ("pairs", "hardest"))
    assert len(pairs) == sum(split["records"] for name, split in manifest["splits"].items() if "adp" in name) > 0
    assert counts.left_out == before["tasks"]["adp"]["pairs"] - len(pairs) > 0
    assert manifest["tasks"] == {"adp": {"pairs": len(pairs)}, "mlm": before["tasks"]["mlm"]}
    assert all(len(row["teacher"]) == 2 and row["teacher"][0] > row["teacher"][1] for row in pairs)


def test_vectors_learn_the_margins_of_a_teacher(job, tokenizer, tmp_path):
    """From scored records to training; without `teacher_weight` these errors grow to 69 in 240 steps."""
    score_pairs(options(job), [Overlap(tokenizer)], str(tmp_path / "scored"))
    tokenizer.save(str(tmp_path / "tokenizer"))
    given = {"data": (str(tmp_path / "scored"),), "tokenizer": str(tmp_path / "tokenizer"), "pooling": "mean"}
    given |= {"model.layers": 1, "model.hidden": 32, "model.heads": 2, "model.max_positions": 64}
    given |= {"negatives": 3, "kl_weight": 0.0, "lanes": 1, "row_length": 48}
    given |= {"batch_pairs": 8, "window": 64, "steps": 160, "log_every": 40, "learning_rate": 3e-3}
    train(load_config("retriever", given | {"teacher_weight": 1.0}), str(tmp_path / "run"), devices=jax.devices()[:1])
    errors = [row["margin_error"] for row in read_metrics(str(tmp_path / "run")) if row["split"] == "train"]
    assert errors[-1] < errors[0] / 2  # 2.2, 1.5, .9, .7
