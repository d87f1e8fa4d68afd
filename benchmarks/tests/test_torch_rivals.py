"""The operators of PyTorch that ``gpu_check.py`` races with take what it gives them; nothing is computed."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")

from nvidia_check.rivals import RIVALS, Flash, Inputs  # noqa: E402

PLACES = [
    ("flash", False),
    ("flash_3", False),
    ("efficient", False),
    ("efficient", True),
    ("cudnn", False),
    ("cudnn", True),
]


@pytest.fixture(autouse=True)
def _flash_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package whose operators PyTorch activates. On the device "meta" none of them is called."""
    monkeypatch.setitem(sys.modules, "flash_attn_interface", ModuleType("flash_attn_interface"))
    monkeypatch.setattr(torch.ops, "flash_attn_3", SimpleNamespace(fwd=None, bwd=None), raising=False)


def inputs(device: str, bias: bool) -> Inputs:
    def make(*shape: int) -> Any:
        return torch.empty(shape, device=device, dtype=torch.bfloat16)

    whole = make(1, 8, 128, 256).expand(2, 8, 128, 256) if bias else None
    q, do, (k, v) = make(2, 128, 8, 64), make(2, 128, 8, 64), (make(2, 256, 8, 64) for _ in "kv")
    return Inputs(q, k, v, whole, do, causal=not bias, scale=0.1)


@pytest.mark.parametrize(("name", "bias"), PLACES)
def test_forward(name: str, bias: bool) -> None:
    o, lse, *_ = RIVALS[name].forward(inputs("meta", bias), lse=True)()
    assert (tuple(o.shape), tuple(lse.shape)) == ((2, 128, 8, 64), (2, 8, 128))


@pytest.mark.parametrize("name", ["flash", "flash_3", "cudnn"])
def test_backward(name: str) -> None:
    x = inputs("meta", False)
    gradients = RIVALS[name].backward(x, RIVALS[name].forward(x, lse=True)())()
    assert [tuple(g.shape) for g in gradients[:3]] == [(2, 128, 8, 64), (2, 256, 8, 64), (2, 256, 8, 64)]


def test_flash_attention_3_is_active_in_its_own_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, FlashAttention-2's operator would be FlashAttention-3 too."""
    active = torch.nn.attention.current_flash_attention_impl
    seen: list[str | None] = []

    def run(*_: object, **__: object) -> Any:
        seen.append(active())
        raise RuntimeError("as on a device of another architecture")

    monkeypatch.setattr(Flash, "operators", lambda self: (run, run))
    for name in ("flash_3", "flash"):
        x, rival = inputs("meta", False), RIVALS[name]
        for call in (rival.forward(x, lse=True), rival.backward(x, (x.do, x.do, x.do, x.do))):
            with pytest.raises(RuntimeError, match="another architecture"):
                call()
            assert active() is None
    assert seen == ["FA3", "FA3", None, None]


def test_flash_attention_3_is_no_rival_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    RIVALS["flash_3"].operators()
    monkeypatch.setitem(sys.modules, "flash_attn_interface", None)
    with pytest.raises(ImportError):
        RIVALS["flash_3"].operators()
    with pytest.raises(ImportError):
        RIVALS["flash_3"].forward(inputs("meta", False), lse=True)()


@pytest.mark.parametrize("bias", [False, True])
def test_memory_efficient_backward(bias: bool) -> None:
    """Its form without values (torch 2.13) lacks a parameter, so the operator is asked on a device that has no kernel."""
    x = inputs("cpu", bias)
    lse, word = torch.empty(2, 8, 128), torch.zeros((), dtype=torch.long)
    with pytest.raises(NotImplementedError, match="CPU"):
        RIVALS["efficient"].backward(x, (x.do, lse, word, word))()


def test_no_gradient_of_a_bias_from_cudnn() -> None:
    with pytest.raises(NotImplementedError, match="gradient of a bias"):
        RIVALS["cudnn"].backward(inputs("meta", True), ())
