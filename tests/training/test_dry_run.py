"""Compiled steps: the search for the largest batch, a program's parts, communication between devices; the measured rate."""

import math
import tempfile

import jax
import pytest

from harp_jax import config as configs
from harp_jax.base.cli import TERMINATED
from harp_jax.base.errors import InputError
from harp_jax.commands import site
from harp_jax.training import dry_run
from harp_jax.training.dry_run import Bytes, compile_step, search_rows
from harp_jax.training.program import Product, collectives, contents
from harp_jax.training.stages.finetune import WITH_DECODER
from harp_jax.training.stages.stage import CROSS_ENCODER
from harp_jax.training.topologies import topology_devices
from tests.support.tiny_run import tiny_config


@pytest.mark.parametrize("most", [0, 1, 5, 7, 8, 9, 64, 500])
@pytest.mark.parametrize("saved", [1.0, 0.7])
def test_finds_the_largest_batch_to_a_sixteenth_in_few_trials(most, saved):
    """`saved`: near the limit, the compiler stores less of each row, so more rows fit than extrapolated."""
    tried = []

    def needed(rows: int) -> Bytes | None:
        tried.append(rows)
        if rows > most:
            return None
        return Bytes(1000.0, 100.0 * rows * (saved if rows > most // 2 else 1.0))

    limit = 1000.0 + 100.0 * saved * (most + 0.5)
    fits, used, fails = search_rows(needed, limit)
    assert fits <= most < fails and fails - fits <= max(1, fits // 16)
    assert used == (0 if not fits else sum(needed(fits)))
    assert len(set(tried)) <= 9 and len(tried) - 1 <= 9


def test_an_unknown_topology_is_one_line_that_names_those_that_work(monkeypatch):
    for name in ("TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"):  # set by a search for TPUs
        monkeypatch.setenv(name, "1")
    with pytest.raises(
        InputError, match="^no such topology .* GPUs are a100, .*b200, each with :N; TPUs such as v3:2x2"
    ):
        topology_devices("gtx1080")


def test_a_step_that_compiles_but_does_not_fit_is_refused(tmp_path, monkeypatch):
    """XLA compiles such steps for a GPU."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = configs.pretrain()
    config.model.update(layers=1, hidden=16, heads=1)
    config.update(batch_pairs=2, row_length=64, tasks=("adp",))
    compiled = compile_step(config, jax.devices()[:1])
    assert not list(tmp_path.iterdir())  # else each dry run would leave a vocabulary of 600 kB
    monkeypatch.setattr(dry_run, "usable_memory", lambda kind: 2**30)
    assert any(line.startswith("fits  ") for line in dry_run.memory_report(compiled))
    monkeypatch.setattr(dry_run, "usable_memory", lambda kind: 1000)
    with pytest.raises(InputError, match="does not fit in the memory of 1 × cpu .*MiB of 0.0 MiB usable.; raise"):
        dry_run.memory_report(compiled)


def test_an_interrupted_measurement_writes_nothing(tmp_path, monkeypatch):
    """Else two steps, one with compilation, would be recorded as 103 s per step."""
    monkeypatch.setattr(dry_run, "train", lambda config, workdir: {"interrupted": 1.0})
    assert dry_run.seconds_per_step(configs.pretrain(), str(tmp_path)) is None
    arguments = site.rate_parser().parse_args(["--config=site", f"--output={tmp_path / 'rate.json'}"])
    with pytest.raises(SystemExit) as stopped:
        site.rate(arguments)
    assert stopped.value.code == TERMINATED and not list(tmp_path.iterdir())


HLO = """\
HloModule jit_step, is_scheduled=true

%fused_product (a: bf16[64,32], b: bf16[32,16]) -> f32[64,16] {
  %a = bf16[64,32]{1,0} parameter(0)
  %b = bf16[32,16]{1,0} parameter(1)
  ROOT %dot.1 = f32[64,16]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/jvp(Ranker.apply)/Ranker.encode/bert/layer_0/mlp/up/dot_general"}
}

%moved (a: f32[1024,512]) -> bf16[512,1024] {
  %a.1 = f32[1024,512]{1,0} parameter(0)
  %c = bf16[1024,512]{1,0} convert(%a.1)
  ROOT %t = bf16[512,1024]{1,0} transpose(%c), dimensions={1,0}
}

%body (p: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %p = (s32[], f32[8,8]{1,0}) parameter(0)
  %x = f32[8,8]{1,0} get-tuple-element(%p), index=1
  %y = f32[8,8]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="inner"}
  ROOT %out = (s32[], f32[8,8]{1,0}) tuple(%x, %y)
}

ENTRY %main (a: bf16[64,32], b: bf16[32,16], c: f32[1024,512], q: bf16[2,128,4,64]) -> f32[64,16] {
  %a.2 = bf16[64,32]{1,0} parameter(0)
  %b.2 = bf16[32,16]{1,0} parameter(1)
  %c.2 = f32[1024,512]{1,0} parameter(2)
  %q = bf16[2,128,4,64]{3,2,1,0} parameter(3)
  %gemm = f32[64,16]{1,0} fusion(%a.2, %b.2), kind=kCustom, calls=%fused_product, backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}}
  %tr = bf16[512,1024]{1,0} fusion(%c.2), kind=kInput, calls=%moved, metadata={op_name="jit(step)/turned"}
  %lib = (bf16[64,16]{1,0}, s8[4]{0}) custom-call(%a.2, %b.2), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
  %fwd = (bf16[2,4,128,64]{3,1,2,0}, f32[2,4,128]{2,1,0}) custom-call(%q, %q, %q), custom_call_target="__cudnn$fmhaScaleBiasSoftmax"
  %bwd = (bf16[2,4,128,64]{3,1,2,0}, u8[0]{0}) custom-call(%q, %q, %q), custom_call_target="__cudnn$fmhaScaleBiasSoftmaxBackward"
  %start = (s32[], f32[8,8]{1,0}) tuple(%c.2)
  %loop = (s32[], f32[8,8]{1,0}) while(%start), condition=%until, body=%body
  ROOT %last = f32[64,16]{1,0} copy(%gemm)
}
"""  # noqa: E501


def test_products_kernels_and_moves_of_a_program():
    found = contents(HLO, loops=3)
    one, head = 2.0 * 64 * 16 * 32, 2.0 * 2 * 4 * 128 * 128 * 64
    up = "bert/layer_0/mlp/up/dot_general"
    assert found.products[:2] == [Product(one, "bf16", up, "Triton"), Product(one, "bf16", "lib", "cuBLASLt")]
    # Forward; backward recomputes the scores.
    assert [(p.flops, p.by) for p in found.products[2:4]] == [(2 * head, "cuDNN"), (5 * head, "cuDNN")]
    assert found.products[4:] == [Product(2.0 * 8**3, "f32", "inner")] * 3
    assert found.flops("f32") == 6 * 8**3 and found.attention == (1, 1)
    assert found.kernels == 6 + 3
    assert found.moves == [(1 << 20, "turned")]  # the last copy is smaller than 1 MiB
    factors, result = 2 * (64 * 32 + 32 * 16), 4 * 64 * 16
    q = 2 * 2 * 128 * 4 * 64
    assert found.traffic == (
        (factors + result) + 6 * 1024 * 512 + (factors + result // 2 + 4) + (4 * q + 4 * 2 * 4 * 128) + 4 * q
        + 2 * result + 3 * 3 * 4 * 64
    )  # fmt: skip


@pytest.mark.parametrize(
    "stage, changes", [("pretrain", {}), ("coarse_tune", {"marks": ()}), ("finetune", {"mqp_weight": 0.5})]
)
def test_every_gradient_is_sent_once(tmp_path, stage, changes):
    """All-reduces on a data mesh send the parameters' size, word embeddings once, and a few scalars."""
    tiny = tiny_config(str(tmp_path))
    config = tiny if stage == "pretrain" else getattr(configs, stage)()
    config.update(tokenizer=tiny.tokenizer, row_length=128, **changes)
    config.model.update(layers=1, hidden=32, heads=2, max_positions=128)
    compiled = dry_run.compile_step(config, jax.devices())
    for config.steps in (10, 0):  # 0: `epochs` count, and without data the number of steps is unknown
        lines = dry_run.time_report(config, jax.devices(), compiled, [], None)
        assert lines[-1].startswith("configured run") == bool(config.steps)
    sent = collectives(compiled.program.as_text())
    family = WITH_DECODER if stage == "finetune" else CROSS_ENCODER
    tree = jax.eval_shape(lambda: family.init_params(compiled.shape, jax.random.key(0)))
    if stage == "finetune":  # masked query prediction has its own linear decoder
        del tree["mlm"]
    size = 4 * sum(math.prod(x.shape) for x in jax.tree.leaves(tree))
    assert compiled.mesh.size == 8 and {kind for kind, _ in sent} == {"all-reduce"}
    assert size <= sum(total for _, total in sent) <= size + 256
