"""``api.attention`` on PyTorch's tensors, which share no memory format with numpy for bf16, against PyTorch's attention."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.run.given_arrays import host_array

torch = pytest.importorskip("torch", reason="torch is not installed")


def tensors(dtype: object) -> tuple[object, object, object]:
    torch.manual_seed(7)
    return tuple(torch.randn(2, 4, 33, 32).to(dtype) for _ in range(3))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_it_is_scaled_dot_product_attention(name: str) -> None:
    q, k, v = tensors(getattr(torch, name))
    done = api.attention(q, k, v, causal=True, backend="cpu")
    theirs = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[name]
    np.testing.assert_allclose(done.o.astype(np.float64), theirs.numpy(), atol=tolerance)
    assert done.record.problem["dtype"] == {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[name]


def test_views_are_read_by_their_strides() -> None:
    q, k, v = tensors(torch.bfloat16)
    straight = api.attention(q, k, v, backend="cpu")
    turned = api.attention(
        *(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)),
        backend="cpu",
    )
    np.testing.assert_array_equal(straight.o.astype(np.float32), turned.o.astype(np.float32))


def test_a_tensor_with_gradient_is_refused_with_the_remedy() -> None:
    q, k, v = tensors(torch.float32)
    with pytest.raises(api.UsageError, match="cannot be read") as caught:
        api.attention(q.requires_grad_(), k, v, backend="cpu")
    assert caught.value.help == "pass q.detach()"


def test_a_tensor_elsewhere_is_refused_with_the_remedy() -> None:
    q, k, v = tensors(torch.float32)
    with pytest.raises(api.UsageError) as caught:
        api.attention(q.to("meta"), k, v, backend="cpu")
    assert caught.value.code == "E039"


def test_lengths_and_scalars_may_be_tensors() -> None:
    q, k, v = (x[0] for x in tensors(torch.float32))
    lengths = torch.tensor([30, 3], dtype=torch.int32)
    done = api.attention(q, k, v, seqlens_q=lengths, scale=torch.tensor(0.25), causal=torch.tensor(True), backend="cpu")
    for start, end in ((0, 30), (30, 33)):
        part = (x[None, :, start:end].double() for x in (q, k, v))
        theirs = torch.nn.functional.scaled_dot_product_attention(*part, is_causal=True, scale=0.25)
        np.testing.assert_allclose(done.o[:, start:end], theirs[0].numpy(), atol=1e-5)


def test_every_further_tensor_may_be_one_of_torch() -> None:
    q, k, v = tensors(torch.float32)
    bias, do = torch.randn(1, 4, 33, 33), torch.randn(2, 4, 33, 32)
    done = api.attention(q, k, v, do=do, bias=bias, backend="cpu")
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=bias.double())
    o.backward(do.double())
    for name, theirs in zip(("o", "dq", "dk", "dv"), (o.detach(), *(x.grad for x in leaves)), strict=True):
        np.testing.assert_allclose(done.outputs[name], theirs.numpy(), atol=2e-5)
    hidden = torch.zeros(2, 33, dtype=torch.bool)
    hidden[0, 20:] = True  # torch's key_padding_mask: true is a hidden key
    seen = api.attention(q, k, v, bias=~hidden[:, None, None, :], backend="cpu")
    theirs = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=~hidden[:, None, None, :]
    )
    np.testing.assert_allclose(seen.o, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e5m2"])
def test_fp8_of_both_encodings(name: str) -> None:
    q, k, v = tensors(getattr(torch, name))
    done = api.attention(q, k, v, dtype=f"fp8_{name[7:11]}:fp32", backend="cpu")
    theirs = torch.nn.functional.scaled_dot_product_attention(*(x.float().double() for x in (q, k, v)))
    assert done.record.problem.get("fp8_encoding", "ocp") == ("fnuz" if name.endswith("fnuz") else "ocp")
    np.testing.assert_allclose(done.o, theirs.numpy(), atol=2e-2)


def test_pairs_of_fp4_have_their_elements_in_order() -> None:
    pairs = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    taken = host_array(pairs.view(torch.float4_e2m1fn_x2), "k")
    np.testing.assert_array_equal(
        taken.view(np.uint8), np.stack((pairs.numpy() % 16, pairs.numpy() // 16), -1).reshape(2, 256)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_session_in_this_process_takes_and_gives_tensors(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 24, 3, 16, generator=torch.manual_seed(n)).to(dtype).transpose(1, 2) for n in range(3))
    with api.session(backend="cpu", in_process=True, lse=True) as session:
        for scale in (1.0, 0.5):
            found = session(q * scale, k, v)
            want = torch.nn.functional.scaled_dot_product_attention(q.double() * scale, k.double(), v.double())
            assert found["o"].dtype is dtype
            assert found["lse"].dtype is torch.float32
            assert (found["o"].double() - want).abs().max() < 0.02
        out = torch.empty(1, 3, 24, 16, dtype=dtype)
        assert session(q, k, v, out={"o": out})["o"] is out
        negated = torch.view_as_complex(torch.zeros(*q.shape, 2)).conj().imag
        with pytest.raises(api.UsageError, match="negated"):
            session(negated, k, v)
        with pytest.raises(api.UsageError, match="wants gradients"):
            session(q.requires_grad_(), k, v)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_outputs_come_back_as_tensors(name: str) -> None:
    q, k, v = tensors(getattr(torch, name))
    want = api.attention(q, k, v, lse=True, backend="cpu")
    done = api.attention(q, k, v, lse=True, backend="cpu", like_inputs=True)
    for kind, found in done.outputs.items():
        assert isinstance(found, torch.Tensor)
        assert found.dtype is (torch.float32 if kind == "lse" else getattr(torch, name))
        np.testing.assert_array_equal(found.float().numpy(), want.outputs[kind].astype(np.float32))
    with api.session(backend="cpu", like_inputs=True) as session:
        for _ in range(2):
            assert torch.equal(session(q, k, v)["o"], done.o)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_stays_where_it_lies(name: str) -> None:
    q, k, v = tensors(getattr(torch, name))
    with api.session(backend="cpu", in_process=True, dtype=f"fp8_{name[7:11]}:bf16") as session:
        theirs = torch.nn.functional.scaled_dot_product_attention(*(x.float().double() for x in (q, k, v)))
        for _ in range(2):
            found = session(q, k, v)["o"]
            assert found.dtype is torch.bfloat16
            assert (found.double() - theirs).abs().max() < 2e-2
