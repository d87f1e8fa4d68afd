"""FlashAttention-3's backward passes executed from their own PTX: right gradients under three seeds and both arithmetics.

NVRTC and ptxas compile a main kernel for 35 to 90 seconds and the three kernels around it for as long again; a row then takes
seconds.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli import api, plugin

GROUPED = "-H 4 --kv-heads 2 -s 256 -d 128 --dtype bf16 --causal"
PASSED = (
    GROUPED,
    "-b 2 -H 4 --kv-heads 1 -s 200 --seqlen-k 333 -d 120 --dtype bf16 --causal --layout bshd",
    "-H 4 --kv-heads 2 -s 130 --seqlen-k 70 -d 128 --dtype bf16 --causal",
    "-b 2 -H 2 -s 200 --seqlen-k 300 -d 64 --dtype bf16",
    "-H 2 -s 200 --seqlen-k 300 -d 64 --hdim-v 40 --dtype bf16",
    "-H 2 -s 70 --seqlen-k 300 -d 40 --hdim-v 64 --dtype bf16",
    "--seqlens-q 70,1,130 --seqlens-k 500,300,130 -H 2 -d 128 --dtype fp16 --mask window:70,30",
    "--seqlens-q 70,1,130,0 --seqlens-k 300,30,130,20 -H 4 --kv-heads 2 -d 128 --dtype bf16 --causal --deterministic",
)
"""Grouped heads or not, both schedulers, ragged sizes, rows without keys, V of another head dim, a window, packed sequences,
and sums in a fixed order."""
WAYS = tuple(product(plugin.Arithmetic, range(3)))


def run(problem: str, **way: Any) -> Any:
    (row,) = api.run(api.Problem.from_cli(problem), backend="flash_attn_3", device="emu:sm_90a", **way)
    return row


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("problem", PASSED)
def test_gradients_pass(problem: str) -> None:
    for arithmetic, seed in WAYS:
        row = run(f"{problem} --direction bwd", emu_arith=arithmetic, emu_seed=seed)
        assert row.verdict is api.Verdict.PASSED, row.notes
        assert row.findings == ()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_backward_pass_reads_what_the_forward_pass_left() -> None:
    for arithmetic, seed in WAYS:
        row = run(f"{GROUPED} --direction fwd+bwd", emu_arith=arithmetic, emu_seed=seed)
        assert row.verdict is api.Verdict.PASSED, row.notes
