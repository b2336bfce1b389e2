"""The pages with links that LinkLearn's tests share, and their graph."""

import pytest

from harp_jax.baselines.linklearn.links import read_graph
from tests.support.linked_topics import paths, write_wiki


@pytest.fixture(scope="module")
def wiki(tmp_path_factory):
    path = tmp_path_factory.mktemp("linklearn")
    write_wiki(path)
    return path


@pytest.fixture(scope="module")
def graph(wiki):
    return read_graph(paths(wiki), (str(wiki / "redirects.tsv"),), "")
