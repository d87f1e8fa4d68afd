"""A kernel that the assembler made slow is not kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cuda import shop
from fmha_cli.backends.flash_attn_3 import defects as module
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.defects import MOST_STACK, defects
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG
from fmha_cli.toolchain.cuda.remarks import remarks_of

SERIAL = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient registers in 'f'"
IGNORED = "ptxas warning : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."
HARMLESS = (
    "ptxas info : (C7519) warpgroup.arrive is injected in around line 57 by compiler to allow use of registers in 'f'"
)


class FakeCubin:
    """A cubin with one kernel of some stack."""

    def __init__(self, raw: bytes) -> None:
        self.kernels = (type("Kernel", (), {"stack_bytes": int(raw or b"0")}),)


@pytest.fixture(autouse=True)
def read_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Cubin", FakeCubin)


@pytest.mark.parametrize(("log", "count"), [(SERIAL, 1), (IGNORED, 1), (HARMLESS, 0), (f"{SERIAL}\n{IGNORED}", 2)])
def test_remarks_about_wgmma_and_registers_are_defects(log: str, count: int) -> None:
    assert len(list(defects(b"0", remarks_of(log)))) == count


@pytest.mark.parametrize(
    ("stack", "kept"), [(0, True), (152, True), (MOST_STACK, True), (MOST_STACK + 8, False), (572, False)]
)
def test_a_large_stack_is_a_defect(stack: int, kept: bool) -> None:
    assert (not list(defects(str(stack).encode(), ()))) is kept


def compile_with(log: str, work: Path) -> None:
    (work / ARTIFACT).write_bytes(b"0")
    (work / LOG).write_text(log)
    require: Any = shop._require_sound
    require(UPSTREAM, family_kernels("sm_90a", Family.FWD)[0], work)


def test_a_build_with_a_defect_fails(tmp_path: Path) -> None:
    with pytest.raises(KernelFailure) as caught:
        compile_with(SERIAL, tmp_path)
    assert caught.value.code == "B063"
    assert "C7510" in (caught.value.why or "")


def test_a_build_without_one_passes(tmp_path: Path) -> None:
    compile_with(HARMLESS, tmp_path)
