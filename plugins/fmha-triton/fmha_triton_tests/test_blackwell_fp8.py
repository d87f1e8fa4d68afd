"""The Blackwell kernel of 8-bit floats: chosen where it fits, executed on an emulated device, and planted faults are found."""

from __future__ import annotations

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of
from fmha_triton.deciding import decide
from fmha_triton.emit import arguments, swizzle_bytes

from fmha_cli import api, plugin
from fmha_triton_tests.support.emulated_runs import assert_clean, drawn, needs_triton, plant, record

DEVICE = plugin.DeviceFacts(id="none", archs=("sm_100a",), units=4)
NARROW = "-H 2 -s 200 -d 64 --dtype fp8_e4m3 --causal --lse --qscale tensor"
FAULTS = {
    "the scale of V is left out": ("gl.SliceLayout(1, layout)) * scale", "gl.SliceLayout(1, layout))"),
    "the LSE is of P as it is stored": ("(top - SHIFT + gl.log2(whole_sum))", "(top + gl.log2(whole_sum))"),
}
"""The text, and what stands there instead; the numbers are wrong then."""


def best(flags: str) -> api.Supported:
    found = (d for d in decide(api.Problem.from_cli(flags), DEVICE) if isinstance(d, api.Supported))
    return min(found, key=lambda d: d.rank)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize(("dtype", "words"), [
    ("fp8_e5m2", "upstream's example: one CTA: non-causal, d 128, 8 bits; here one CTA"),
    ("fp8_e4m3", "upstream's example: none for fp8_e4m3; here one CTA"),
])  # fmt: skip
def test_it_is_first_and_says_what_upstream_has(dtype: str, words: str) -> None:
    first = best(f"-H 2 -s 256 -d 128 --dtype {dtype}")
    assert function_of(first.kernel) == BLACKWELL
    assert first.note.endswith(words)
    assert algorithm_of(first.kernel).num_stages == 4


def test_rows_of_8_bits_are_swizzled_over_what_they_have() -> None:
    """64 bytes of head dim 64; O has 16 bits."""
    narrow, wide = (best(f"-H 2 -s 256 -d {n} --dtype fp8_e5m2").kernel for n in (64, 128))
    assert [swizzle_bytes(narrow, name) for name in ("QMap", "VMap", "OutMap")] == [64, 64, 128]
    assert [swizzle_bytes(wide, name) for name in ("QMap", "VMap", "OutMap")] == [128, 128, 128]
    types = {a.name: a.type for a in arguments(narrow)}
    assert types["VMap"].startswith(
        "tensordesc<fp8e5[1,1,128,64],NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=8"
    )
    assert types["OutMap"].startswith(
        "tensordesc<bf16[1,1,128,64],NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16"
    )
    assert types["DescaleV"] == "*fp32"


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("flags", drawn([
    (NARROW,),
    ("-H 2 -s 256 --seqlen-k 200 -d 128 --dtype fp8_e4m3 --qscale tensor",),
    ("-H 2 -s 200 -d 64 --dtype fp8_e5m2 --causal --lse --qscale head",),
    ("-H 1 -s 256 -d 128 --dtype fp8_e5m2 --causal",),
], 1, "fp8 on Blackwell"))  # fmt: skip
def test_it_passes(flags: str, cache: str) -> None:
    found = record(flags, "sm_100a", cache)
    assert_clean(found)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", list(FAULTS))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, other = FAULTS[name]
    plant(text, other, monkeypatch)
    assert record(NARROW, "sm_100a", cache).verdict is api.Verdict.WRONG
