"""``api.attention`` on PyTorch's tensors, which share no memory format with numpy for bf16, against PyTorch's attention."""

from __future__ import annotations

import numpy as np
import pytest

from fmha_cli import api

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
