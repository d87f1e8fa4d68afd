"""Real compiles with NVRTC: real sources and headers, no toolkit, no driver. The whole run shares one cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.shop import Workshop, build
from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.launches import expect_exports
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.signature import MaskKey, Need
from fmha_cli.toolchain.cache.layout import PTX
from fmha_cli.toolchain.cuda.cubin import Cubin
from tests.support.builds.nvrtc_context import nvrtc_context

QUICK = (("sm_90", Family.FWD_SPLITKV_COMBINE, 64),)
SLOW = (
    ("sm_90a", Family.FWD, 32),
    ("sm_80", Family.FWD, 64),
    ("sm_100", Family.FWD_SPLITKV, 128),
    ("sm_86", Family.BWD_DQ_DK_DV, 64),
    ("sm_120", Family.BWD_DOT_DO_O, 96),
    ("sm_103a", Family.BWD_CONVERT_DQ, 256),
)


def kernel_of(arch: str, family: Family, hdim: int) -> KernelSpec:
    """A causal, even kernel without other features, if the family has one."""

    def wanted(kernel: KernelSpec) -> bool:
        s, a = kernel.signature, kernel.algorithm
        assert isinstance(a, FaAlgorithm)
        even = a.even_mn or family not in (Family.FWD, Family.FWD_SPLITKV, Family.BWD_DQ_DK_DV)
        plain = s.softcap is not Need.YES and s.dropout is not Need.YES and s.append is not Need.YES
        return s.hdim == hdim and s.mask in (MaskKey.CAUSAL, MaskKey.ANY) and even and plain

    return next(kernel for kernel in family_kernels(load_arch(arch), family) if wanted(kernel))


@pytest.fixture(scope="module")
def context(shared_cache: Path) -> BuildContext:
    return nvrtc_context(UPSTREAM, shared_cache)


@pytest.mark.parametrize(
    "choice",
    [*QUICK, *(pytest.param(choice, marks=pytest.mark.slow) for choice in SLOW)],
    ids=lambda choice: f"{choice[1].value}-{choice[0]}-d{choice[2]}",
)
def test_a_kernel_compiles(context: BuildContext, choice: tuple[str, Family, int]) -> None:
    kernel = kernel_of(*choice)
    made = build(UPSTREAM, kernel, context)
    raw = made.path.read_bytes()
    cubin = Cubin(raw)
    assert cubin.arch == kernel.arch
    assert [found.name for found in cubin.kernels] == ["fmha_fa2"]
    assert "V13.0." in (cubin.tool_version or "")
    abi = check_exports(raw, kernel, expect_exports(kernel))
    size = abi.block_bytes + (4 if kernel.family is Family.BWD_CONVERT_DQ else 0)
    assert cubin.kernels[0].parameter_bytes == size
    log = made.log.read_text("utf-8")
    assert "exit status 0" in log
    assert str(context.cache_root).encode() not in raw
    again = build(UPSTREAM, kernel, context)
    assert again.cached
    assert again.sha256 == made.sha256


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    "choice",
    [("sm_90", Family.FWD_SPLITKV_COMBINE, 64), pytest.param(("sm_90", Family.FWD, 64), marks=pytest.mark.slow)],
    ids=lambda choice: f"{choice[1].value}-{choice[0]}-d{choice[2]}",
)
def test_both_routes_give_the_same_machine_code(
    context: BuildContext, choice: tuple[str, Family, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVRTC's cubin and the one that ptxas makes of NVRTC's PTX, without unreferenced parts, have equal code bytes."""
    kernel, shop = kernel_of(*choice), context.prepared
    assert isinstance(shop, Workshop)
    try:
        shop.assembled()
    except EnvironmentProblem as fault:
        pytest.skip(f"no ptxas: {fault.why}")
    one = build(UPSTREAM, kernel, context)
    monkeypatch.setattr(shops, "needs_assembler", lambda upstream, kernel: True)
    other = build(UPSTREAM, kernel, context)
    assert one.digest != other.digest
    cubins = [Cubin(made.path.read_bytes()) for made in (one, other)]
    kernels = [cubin.kernels[0] for cubin in cubins]
    assert kernels[0] == kernels[1]  # code, registers, stack, spills, parameters
    assert [cubin.extern_calls for cubin in cubins] == [(), ()]
    for made in (one, other):
        check_exports(made.path.read_bytes(), kernel, expect_exports(kernel))
    texts = [made.path.with_name(PTX).read_bytes() for made in (one, other)]
    assert texts[0] == texts[1]
    assert other.path.stat().st_size < one.path.stat().st_size / 8


@pytest.mark.slow
def test_what_upstream_refuses_to_compile_is_told(context: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traits break one of upstream's own assertions, so the compile fails early and costs little."""
    kernel = kernel_of("sm_90", Family.BWD_CONVERT_DQ, 64)
    text = emit(kernel).replace("Flash_bwd_kernel_traits<64,", "Flash_bwd_kernel_traits<65,")
    monkeypatch.setattr(UPSTREAM, "emit", lambda kernel: text)
    monkeypatch.setattr(shops, "find_nvcc", lambda root: None)
    with pytest.raises(KernelFailure, match=r"kernel_traits\.h\(\d+\): error: static assertion failed") as caught:
        build(UPSTREAM, kernel, context)
    log = Path(str(caught.value.where)).read_text("utf-8")
    assert "-arch=sm_90" in log
    assert "detected during" in log
