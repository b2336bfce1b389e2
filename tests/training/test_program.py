"""What a compiled program consists of, read from its text."""

from harp_jax.training.program import Product, contents, size

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
  %gemm = f32[64,16]{1,0} fusion(%a.2, %b.2), kind=kCustom, calls=%fused_product
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
    assert found.products[:2] == [Product(one, "bf16", "bert/layer_0/mlp/up/dot_general"), Product(one, "bf16", "lib")]
    assert [p.flops for p in found.products[2:4]] == [2 * head, 5 * head]  # forward; backward recomputes the scores
    assert found.products[4:] == [Product(2.0 * 8**3, "f32", "inner")] * 3
    assert found.flops("f32") == 6 * 8**3 and found.attention == (1, 1)
    assert found.kernels == 6 + 3
    assert found.moves == [(1 << 20, "turned")]  # the copy at the end is smaller than a MiB
    factors, result = 2 * (64 * 32 + 32 * 16), 4 * 64 * 16
    q = 2 * 2 * 128 * 4 * 64
    assert found.traffic == (
        (factors + result) + 6 * 1024 * 512 + (factors + result // 2 + 4) + (4 * q + 4 * 2 * 4 * 128) + 4 * q
        + 2 * result + 3 * 3 * 4 * 64
    )  # fmt: skip


def test_sizes_of_shapes():
    assert size("(f32[2,3]{1,0:T(8,128)}, bf16[5]{0}, pred[7], u8[0]{0}, f8e4m3fn[4])") == 24 + 10 + 7 + 4
    assert size("f32[]") == 4
