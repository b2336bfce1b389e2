"""Parity with transformers of other shapes, long sequences and many lines."""

import pytest

from tests.support.architectures import ARCHITECTURES, check_parity
from tests.support.scripts import compare_scripts

pytestmark = pytest.mark.real
SIZES = {
    "odd": {},
    "wide": {"hidden_size": 40, "num_attention_heads": 5, "num_hidden_layers": 3, "vocab_size": 131, "intermediate_size": 33},
    "one_layer": {
        "hidden_size": 14, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 57, "intermediate_size": 21
    },
}  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shapes_and_lengths(name, sizes, tmp_path):
    check_parity(tmp_path, name, SIZES[sizes], (5, 127, 128, 129, 1000), ("float32",))


@pytest.mark.parametrize("name", ["modernbert", "modernbert-mean"])
def test_8192_tokens(name, tmp_path):
    """A full layer and two local ones; one head, since 8,192² scores of a head take 256 MiB."""
    sizes = {"max_position_embeddings": 8192, "num_hidden_layers": 3, "num_attention_heads": 1}
    check_parity(tmp_path, name, sizes, (8192,), ("float32",), stride=16)


@pytest.mark.parametrize("kind", ["modernbert", "roberta", "xlm-roberta"])
def test_ids_and_offsets_of_10_000_lines(kind, tmp_path):
    compare_scripts(kind, str(tmp_path), 10_000)
