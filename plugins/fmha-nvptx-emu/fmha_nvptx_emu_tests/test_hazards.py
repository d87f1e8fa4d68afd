"""Hazards of upstream's kernels that an execution shows, and the rule that shows them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_cli.api import Problem, run
from fmha_nvptx_emu_tests.support.ptx_machine import launch, module

COPY = """.shared .align 16 .b8 s[512];
mov.u32 %r1, s; shl.b32 %r2, %r0, 4; add.s32 %r1, %r1, %r2; mov.u32 %r3, 0;
cp.async.cg.shared.global [%r1], [%rd0], 16, %r3; WAIT
mov.u32 %r4, 7; st.shared.u32 [%r1], %r4; ld.shared.u32 %r5, [%r1]; mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r5;"""


@pytest.mark.promise("The PTX emulator finds hazards in unmodified kernels of Triton, cuDNN and xformers.")
@pytest.mark.parametrize(("wait", "kinds"), [("", {"missing-wait"}), ("cp.async.wait_all;", set())])
def test_a_copy_of_no_bytes_is_outstanding_too(wait: str, kinds: set[str]) -> None:
    """It writes zeros, and does so asynchronously (PTX ISA 9.1, 9.7.9.25.3)."""
    out = np.zeros(32, np.uint32)
    seen = launch(module(COPY.replace("WAIT", wait)), out)
    assert seen.fault is None
    assert set(seen.kinds) == kinds
    assert out.tolist() == [7] * 32


@pytest.mark.promise("The PTX emulator finds hazards in unmodified kernels of Triton, cuDNN and xformers.")
@pytest.mark.slow
def test_a_memory_efficient_backward_kernel_stores_under_copies_that_nobody_awaits() -> None:
    """Confirmed by the PTX ISA, on no GPU. The emulator's copies arrive at once, so the numbers are right."""
    problem = Problem.from_cli("-b 1 -H 2 -s 256 -d 192 --dtype fp16 --direction bwd")
    (record,) = (one.to_dict() for one in run(problem, backend="mem_efficient", device="emu:sm_80"))
    assert record["verdict"] == "HAZARD"
    assert {found["kind"] for found in record["findings"]} == {"missing-wait", "shared-race"}
    checks = [check for check in record["checks"].values() if check]
    assert checks
    assert all(check["row_l2"] <= check["row_l2_budget"] for check in checks)
