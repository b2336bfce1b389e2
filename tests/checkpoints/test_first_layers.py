import hashlib
import os

import jax
import numpy as np
import pytest

import harp_jax.export as command
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.export import write_first_layers
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.bert import BertShape
from tests.support.synthetic import tokenizer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("encoder") / "hf")
    shape = BertShape(tokenizer().size, 3, 32, 2, 64, 64)
    save_hf(
        directory, shape, jax.device_get(jax.jit(lambda k: init_params(shape, k))(jax.random.key(0))), tokenizer(), ""
    )
    return directory


def test_embeddings_and_layers_are_kept_and_heads_are_not(encoder, tmp_path):
    command.main(
        command.arguments_parser().parse_args([f"--encoder={encoder}", "--layers=2", f"--output={tmp_path / 'start'}"])
    )
    for words in ([f"--encoder={encoder}"], [f"--encoder={encoder}", "--layers=2", "--workdir=x"], ["--layers=2"]):
        with pytest.raises(InputError, match="give --workdir, or --encoder with --layers"):
            command.main(command.arguments_parser().parse_args([*words, "--output=x"]))
    (whole, all_params), (shape, params) = load_hf(encoder), load_hf(str(tmp_path / "start"))
    assert (shape.layers, shape.hidden, whole.layers) == (2, 32, 3) and set(params) == {"encoder"}
    assert set(params["encoder"]) == {"embeddings", "layer_0", "layer_1"}
    for name, tree in params["encoder"].items():
        jax.tree.map(np.testing.assert_array_equal, tree, all_params["encoder"][name])


def test_the_start_has_the_hidden_states_of_the_encoders_layer_in_torch(encoder, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    write_first_layers(encoder, 2, str(tmp_path / "start"))
    ids = torch.tensor([[2, 10, 20, 30, 3]])
    with torch.no_grad():
        whole = transformers.AutoModel.from_pretrained(encoder)(ids, output_hidden_states=True).hidden_states[2]
        start = transformers.AutoModel.from_pretrained(str(tmp_path / "start"))(ids).last_hidden_state
    torch.testing.assert_close(start, whole, rtol=0, atol=0)


def test_other_weights_and_too_many_layers_are_refused(encoder, tmp_path):
    with pytest.raises(InputError, match="has 3 layers; choose --layers from 1 to 3, not 4"):
        write_first_layers(encoder, 4, str(tmp_path / "start"))
    with pytest.raises(InputError, match="it is another model or damaged"):
        write_first_layers(encoder, 2, str(tmp_path / "start"), sha256="0" * 64)
    with open(os.path.join(encoder, "model.safetensors"), "rb") as file:
        write_first_layers(encoder, 2, str(tmp_path / "start"), sha256=hashlib.sha256(file.read()).hexdigest())
