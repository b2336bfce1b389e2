"""The collection's terms as arrays: the same as one sort of all of them, with no more than a range in memory."""

import os
import tracemalloc

import numpy as np
import pyarrow.compute as pc

from data_pipeline.engine.local import LocalEngine
from data_pipeline.engine.store import write
from data_pipeline.tasks import prop as term_collection
from harp_jax.base.randomness import signed64

TERMS = 120_000  # so that what else is allocated in a process of many tests does not count


def words(count):
    """Different words of several lengths."""
    return [f"{'é' * (i % 4)}{i}" for i in range(count)]


def test_terms_pass_in_ranges_of_their_hashes(tmp_path):
    # Every word is counted in two buckets.
    job = {"work": str(tmp_path)}
    for bucket in (0, 1):
        counts = {word: bucket + 1 + len(word) for word in words(TERMS)}
        write(job, "term_counts", bucket, "test", 0, term_collection.counted(counts))
    engine = LocalEngine(job, 1, "500MB")
    engine.join("term_totals", term_collection.TERM_TOTALS_SQL, ["term_counts"], partitioned=True)
    pc.binary_length(["warmed up"])
    folder = str(tmp_path / "collection")
    tracemalloc.start()
    term_collection.save(job, folder, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    assert peak < size / 8, (peak, size)

    found = term_collection.TermCollection(folder, False)
    n = {signed64("word", word): 3 + 2 * len(word) for word in words(TERMS)}
    assert found.words.tolist() == sorted(n)
    assert np.diff(found.ends, prepend=0).tolist() == [n[hashed] for hashed in sorted(n)]
    assert found.total == sum(n.values()) and found.mean_length == found.total / 5
    texts = [found.texts[a:b].tobytes().decode() for a, b in zip(found.offsets.tolist(), found.offsets[1:].tolist())]
    assert {signed64("word", word): word for word in words(TERMS)} == dict(zip(found.words.tolist(), texts))


def test_a_collection_without_terms_is_written_too(tmp_path):
    term_collection.save({"work": str(tmp_path)}, str(tmp_path / "collection"), 3)
    assert np.load(tmp_path / "collection" / "offsets.npy").tolist() == [0]
    assert len(np.load(tmp_path / "collection" / "words.npy")) == 0
