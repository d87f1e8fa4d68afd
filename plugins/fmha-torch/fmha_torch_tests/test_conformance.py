"""The published conformance tests. Decisions need no PyTorch; the tests that run kernels are skipped without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import conformance

fmha_torch = pytest.importorskip("fmha_torch", reason="plugins/fmha-torch is not installed")


RUNNING = (conformance.check_claims, conformance.check_times)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], shared_cache: Path) -> None:
    if check in RUNNING:
        pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    check(conformance.Subject(fmha_torch.TorchBackend(), entry="fmha_torch", cache_root=shared_cache))
