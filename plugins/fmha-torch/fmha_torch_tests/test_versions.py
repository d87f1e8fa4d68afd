"""What differs between the versions of PyTorch that the plugin takes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
fmha_torch = pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")

import torch.nn.attention.varlen as varlen  # noqa: E402 - PyTorch may not be installed
from fmha_torch.attend import attend_of  # noqa: E402 - the plugin may not be installed
from fmha_torch.kernels import TorchAlgorithm, Way, kernels_of, table  # noqa: E402
from torch.torch_version import TorchVersion  # noqa: E402

from fmha_cli import api  # noqa: E402

LINE = "-H 4 --kv-heads 2 --seqlens-q 3,5 -d 8 --causal --dtype bf16"


def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The keywords with which ``varlen_attn`` is called, which runs on CUDA alone."""
    seen: list[dict[str, Any]] = []

    def played(*args: Any, **options: Any) -> Any:
        seen.append({"args": args, **options})
        return args[0]

    monkeypatch.setattr(varlen, "varlen_attn", played)
    found = (k for k in kernels_of("sm_90") if isinstance(k.algorithm, TorchAlgorithm))
    kernel = next(k for k in found if k.algorithm == TorchAlgorithm(way=Way.VARLEN, masking=k.algorithm.masking))
    q, k = torch.zeros(1, 4, 8, 8), torch.zeros(1, 2, 8, 8)
    o, lse = attend_of(api.Problem.from_cli(LINE), kernel, {})(q, k, k)
    assert (o.shape, lse, len(seen)) == (q.shape, None, 1)
    return seen[0]


def test_varlen_attn_is_called_as_the_installed_version_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    takes = inspect.signature(varlen.varlen_attn)
    options = told(monkeypatch)
    takes.bind(*options.pop("args"), **options)
    assert options["window_size"] == (-1, 0)
    assert options.get("enable_gqa", True) is True


@pytest.mark.parametrize(("version", "has"), [("2.11.0+cu130", False), ("2.12.1+cu130", True), ("2.13.0+cpu", True)])
def test_the_word_for_fewer_key_heads_came_with_2_12(version: str, has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", TorchVersion(version))
    assert ("enable_gqa" in told(monkeypatch)) is has


def test_what_came_later_came_after_the_first_version_that_is_taken() -> None:
    versions = table()["torch"]
    assert all(TorchVersion(versions["least"]) < TorchVersion(since) for since in versions["since"].values())
