"""``torch.ops.fmha.attention`` against PyTorch's own attention in float64: outputs, gradients, ``torch.compile``, and what it refuses."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from fmha_cli import api

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")

import fmha_torch.operator as ours  # noqa: E402 - PyTorch may not be installed

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 0.04}
"""Of the largest number of each tensor. Roundings of bf16 are 1/256; in fp32 they add up over the keys."""
SEEN = torch.tensor([[True] * 20, [True] * 13 + [False] * 7])[:, None, None]


def operands(heads: int = 4, kv: int = 2, rows: int = 12, keys: int = 20, dim_v: int = 16) -> list[Any]:
    torch.manual_seed(rows)
    shapes = (2, heads, rows, 24), (2, kv, keys, 24), (2, kv, keys, dim_v)
    return [torch.randn(shape) for shape in shapes]


def reference(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    visible: Any = None,
    sinks: Any = None,
    softcap: float = 0.0,
    scale: Any = None,
) -> Any:
    """Attention by its formula, in the type of q."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if mask is None else scores + mask
    scores = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    return torch.nan_to_num(torch.softmax(scores, -1))[..., : k.shape[2]] @ v


def diagonal(rows: int, keys: int, left: int, right: int, shift: int) -> Any:
    distance = torch.arange(keys)[None] - torch.arange(rows)[:, None] - shift
    return ((distance >= -left) & (distance <= right))[None, None]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"visible": diagonal(12, 20, 99, 0, 0)}),
    "window": ({"window": (5, 1)}, {"visible": diagonal(12, 20, 5, 1, 8)}),
    "lower right": ({"window": (-1, 0), "scale": 0.5}, {"visible": diagonal(12, 20, 99, 0, 8), "scale": 0.5}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "bias": ({"attn_mask": torch.linspace(-3, 3, 4 * 12 * 20).reshape(1, 4, 12, 20)}, {}),
    "bias by head": ({"attn_mask": torch.linspace(-3, 3, 80).reshape(4, 1, 20), "is_causal": True}, {}),
    "booleans": ({"attn_mask": SEEN}, {"visible": SEEN}),
    "sinks": ({"sinks": torch.tensor([-1.0, 0.0, 1.0, 3.0])}, {}),
}


def told(name: str, dtype: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """The arguments of both, and the tensors among them that want gradients."""
    given, wanted = (dict(one) for one in CASES[name])
    learned = []
    for key, theirs in (("attn_mask", "mask"), ("sinks", "sinks")):
        if key in given and given[key].dtype != torch.bool:
            given[key] = given[key].to(dtype).requires_grad_()
            wanted[theirs] = given[key].double()
            learned.append(given[key])
    if name == "bias by head":
        wanted["visible"] = diagonal(12, 20, 99, 0, 0)
    return given, wanted, learned


def check(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    assert (ours.double() - theirs).abs().max() <= TOLERANCE[ours.dtype] * theirs.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str, dtype: Any) -> None:
    q, k, v = (x.to(dtype).requires_grad_() for x in operands())
    given, wanted, learned = told(name, dtype)
    o = torch.ops.fmha.attention(q, k, v, enable_gqa=True, **given)
    theirs = reference(q.double(), k.double(), v.double(), **wanted)
    check(o, theirs)
    do = torch.randn(o.shape).to(dtype)
    grads = torch.autograd.grad(o, (q, k, v, *learned), do)
    right = torch.autograd.grad(theirs, (q, k, v, *learned), do.double())
    for found, right_one in zip(grads, right, strict=True):
        check(found, right_one.double())


def test_the_reference_is_that_of_torch_and_a_fault_fails() -> None:
    q, k, v = (x.double() for x in operands(kv=4))
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(reference(q, k, v, visible=diagonal(12, 20, 99, 0, 0)), theirs)
    q, k, v = operands()
    o = ours.attention(q, k, v, enable_gqa=True, window=(5, 1))
    with pytest.raises(AssertionError):
        check(o, reference(q.double(), k.double(), v.double(), visible=diagonal(12, 20, 4, 1, 8)))


def test_the_gradients_follow_the_saved_forward_pass() -> None:
    """The backward kernel reads the LSE of the call: one that is larger by 1 makes all weights smaller by e."""
    q, k, v = (x.requires_grad_() for x in operands(kv=4))
    rest = (None, None, "none", None, 0.0, None, None, None)
    o, lse = torch.ops.fmha.attention_forward(q, k, v, *rest)
    do = torch.randn_like(o)
    backward = torch.ops.fmha.attention_backward
    (right,) = torch.autograd.grad(o, v, do)
    for shift in (0, 1):
        _, _, dv, _ = backward(q, k, v, None, None, o.detach(), lse + shift, do, False, *rest[2:])
        torch.testing.assert_close(dv, right * torch.exp(torch.tensor(-float(shift))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", [(0, 4), None])
def test_keys_of_each_sequence(start: tuple[int, int] | None) -> None:
    q, k, v = operands(kv=4)
    first = start or (0, 0)
    for b, (f, n) in enumerate(zip(first, (9, 16), strict=True)):
        o = ours.attention(q, k, v, key_starts=start, key_lengths=(9, 16), window=(-1, 0))[b : b + 1]
        kb, vb = (x[b : b + 1, :, f : f + n].double() for x in (k, v))
        check(o, reference(q[b : b + 1].double(), kb, vb, visible=diagonal(12, n, 99, 0, n - 12)))


def test_packed_sequences_see_themselves_alone() -> None:
    q, k, v = (x[:1].requires_grad_() for x in operands(kv=4, keys=12))
    o, do = ours.attention(q, k, v, packed=(5, 7), window=(-1, 0)), torch.randn(1, 4, 12, 16)
    visible = torch.block_diag(torch.ones(5, 5), torch.ones(7, 7)).bool().tril()[None, None]
    theirs = reference(q.double(), k.double(), v.double(), visible=visible)
    check(o, theirs)
    for mine, right in zip(
        torch.autograd.grad(o, (q, k, v), do), torch.autograd.grad(theirs, (q, k, v), do.double()), strict=True
    ):
        check(mine, right.double())


def test_tensors_of_any_strides_and_no_elements() -> None:
    q, k, v = operands(kv=4)
    apart = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    thin = torch.stack((v, v), -1)[..., 0]
    assert torch.equal(ours.attention(*apart, thin), ours.attention(q, k, v))
    shared = q[:1].expand(2, -1, -1, -1)
    assert torch.equal(ours.attention(shared, k, v), ours.attention(shared.contiguous(), k, v))
    assert ours.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 12, 16)
    assert not ours.attention(q, k[:, :, :0], v[:, :, :0]).any()


@pytest.mark.parametrize("name", CASES)
def test_it_is_an_operator_by_the_rules_of_torch(name: str) -> None:
    q, k, v = (x.requires_grad_() for x in operands())
    given, _, _ = told(name, torch.float32)
    torch.library.opcheck(torch.ops.fmha.attention.default, (q, k, v), {"enable_gqa": True, **given})


def compiled(backend: str) -> None:
    def layer(q: Any, k: Any, v: Any) -> Any:
        return torch.ops.fmha.attention(q * 2, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)

    q, k, v = (x.requires_grad_() for x in operands())
    torch._dynamo.reset()
    fast = torch.compile(layer, fullgraph=True, backend=backend)
    for n in (20, 18):
        o, plain = fast(q, k[:, :, :n], v[:, :, :n]), layer(q, k[:, :, :n], v[:, :, :n])
        torch.testing.assert_close(o, plain)
        do = torch.randn_like(o)
        torch.testing.assert_close(torch.autograd.grad(o, (q, k, v), do), torch.autograd.grad(plain, (q, k, v), do))


def test_torch_compile_takes_it_whole() -> None:
    compiled("aot_eager")


@pytest.mark.slow
@pytest.mark.ci
def test_the_compiler_of_torch_takes_it_whole() -> None:
    compiled("inductor")


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "heads": (lambda q, k, v: ours.attention(q, k, v), "enable_gqa=True"),
    "float64": (lambda q, k, v: ours.attention(q.double(), k.double(), v.double(), enable_gqa=True), "float64"),
    "two masks": (lambda q, k, v: ours.attention(q, k, v, is_causal=True, enable_gqa=True, window=(3, 0)), "window"),
    "a mask of another type": (
        lambda q, k, v: ours.attention(q, k, v, torch.zeros(12, 20).double(), enable_gqa=True),
        "attn_mask.to",
    ),
    "a packed batch": (lambda q, k, v: ours.attention(q, k, v, enable_gqa=True, packed=[6, 6]), "batch 1"),
    "a wide head": (
        lambda q, k, v: ours.attention(*(x.repeat(1, 1, 1, 99) for x in (q, k, v)), enable_gqa=True),
        "hdim",
    ),
    "gradients of a cache": (
        lambda q, k, v: ours.attention(q, k.requires_grad_(), v, enable_gqa=True, key_lengths=[3, 4]).sum().backward(),
        "inference only",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_is_refused_with_the_reason(name: str) -> None:
    call, why = REFUSED[name]
    with pytest.raises(api.FmhaError) as told:
        call(*operands())
    assert why in "".join(traceback.format_exception(told.value)), told.value.render()
