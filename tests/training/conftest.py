"""The collection for the ranking stages, written once per test file."""

import pytest

from tests.support.ranking_collection import write_collection


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    return write_collection(tmp_path_factory.mktemp("collection"))
