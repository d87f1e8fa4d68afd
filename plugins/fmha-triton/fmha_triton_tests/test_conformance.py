"""The published conformance tests. Without a device nothing runs; names, rules and decisions are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import conformance

fmha_triton = pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")


class OneArch(fmha_triton.TritonBackend):
    """The architecture with the most kinds of kernels: 200 problems on all eleven would take a minute."""

    def archs(self) -> tuple[str, ...]:
        return ("sm_90a",)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check, tmp_path: Path) -> None:
    kind = fmha_triton.TritonBackend if check is conformance.check_names else OneArch
    check(conformance.Subject(kind(driven=False), entry="fmha_triton", cache_root=tmp_path / "cache"))


def test_every_code_has_a_page() -> None:
    conformance.check_codes(fmha_triton.TritonBackend(driven=False), Path(fmha_triton.__file__).parent)
