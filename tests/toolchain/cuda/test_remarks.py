"""Calls out of a cubin, and the assembler's remarks on matrix code that such calls slow down."""

from __future__ import annotations

import pytest

from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.remarks import remarks_of
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.builds.nvrtc_tiny import ARCHS, compiled, cubin_of
from tests.support.builds.nvrtc_wgmma import ARCH, wgmma_text

CALLING = """
extern "C" __global__ void fmha_tiny(float* x, int n) { assert(n > 3); if (n == 7) printf("%d", n); x[0] = n; }
"""


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("arch", ARCHS)
def test_calls_that_leave_the_cubin(arch: str) -> None:
    """NVRTC declares assert and printf itself, and asserts are live unless the flags contain -DNDEBUG."""
    assert Cubin(cubin_of(CALLING, arch)).extern_calls == ("__assertfail", "vprintf")
    assert Cubin(cubin_of(CALLING, arch, "-DNDEBUG")).extern_calls == ("vprintf",)
    assert Cubin(cubin_of(CALLING.replace("if (n", "if (0"), arch, "-DNDEBUG")).extern_calls == ()


def test_a_cubin_without_calls() -> None:
    assert Cubin(tiny_cubin("fmha_tiny", (8,))).extern_calls == ()


def test_a_planted_assert_serialises_wgmma() -> None:
    done = compiled(wgmma_text(), ARCH)
    assert done.cubin is not None
    assert Cubin(done.cubin).extern_calls == ("__assertfail",)
    remarks = remarks_of(done.log)
    assert len(remarks) == 1
    assert remarks[0].startswith("C75")
    assert "wgmma.mma_async instructions are serialized" in remarks[0]


def test_without_it_nothing_is_said() -> None:
    done = compiled(wgmma_text(), ARCH, "-DNDEBUG")
    assert done.cubin is not None
    assert Cubin(done.cubin).extern_calls == ()
    assert remarks_of(done.log) == ()


LOG = """\
$ python -m fmha_cli.toolchain.cuda -DC7510
ptxas info    : (C7519) warpgroup.arrive is injected in around line 57 by compiler to allow use of registers in 'f'
ptxas info    : (C7519) warpgroup.arrive is injected in around line 95 by compiler to allow use of registers in 'f'
ptxas warning : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.
ptxas info    : (C9999) something else
ptxas info    : Used 30 registers, used 0 barriers
"""


def test_the_remarks_of_a_log() -> None:
    assert remarks_of(LOG) == (
        "C7519: warpgroup.arrive is injected by compiler to allow use of registers in 'f'",
        "C7504: Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.",
    )
    assert remarks_of("") == ()
