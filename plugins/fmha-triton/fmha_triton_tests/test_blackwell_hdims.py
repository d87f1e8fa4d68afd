"""The Blackwell kernel of V with another head dim than Q and K: chosen where it fits, executed on an emulated device, and a planted fault is found."""

from __future__ import annotations

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_triton.algorithm import Language
from fmha_triton.catalogue import BLACKWELL, TENSOR_COLUMNS, UNEQUAL_HDIMS, algorithm_of, function_of, kernels_of
from fmha_triton.deciding import decide
from fmha_triton.emit import arguments, constants, emit
from fmha_triton.plan import plan_of

from fmha_cli import api, plugin
from fmha_triton_tests.support.emulated_runs import assert_clean, drawn, needs_triton, plant, record

DEVICE = plugin.DeviceFacts(id="none", archs=("sm_100a",), units=4)
LENGTHS = "-H 2 -s 300 --seqlen-k 333"
NARROW_V = f"{LENGTHS} -d 128 --hdim-v 64 --dtype fp16 --lse"
WIDE_V = f"{LENGTHS} -d 64 --hdim-v 128 --dtype bf16 --causal --lse"
EXPECTED = (
    "mbarrier.expect(self.signal, desc.nbytes_per_cta)",
    "mbarrier.expect(self.signal, self.memory.nbytes_per_cta)",
)
"""The bytes that a barrier waits for, and those of a whole buffer of the ring, half of which V of 64 columns leaves as it is."""


def best(flags: str) -> api.Supported:
    found = (d for d in decide(api.Problem.from_cli(flags), DEVICE) if isinstance(d, api.Supported))
    return min(found, key=lambda d: d.rank)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize("mask", ["", "--causal"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize(("hdim", "hdim_v"), UNEQUAL_HDIMS)
def test_it_is_first_and_says_that_upstream_has_none(hdim: int, hdim_v: int, dtype: str, mask: str) -> None:
    first = best(f"{LENGTHS} -d {hdim} --hdim-v {hdim_v} --dtype {dtype} {mask}")
    signature = first.kernel.signature
    assert function_of(first.kernel) == BLACKWELL
    assert (signature.hdim, signature.hdim_v, algorithm_of(first.kernel).num_ctas) == (hdim, hdim_v, 1)
    assert first.note.endswith(f"upstream's example: none for hdim_v {hdim_v}; here one CTA")


@pytest.mark.parametrize("flags", [
    f"{LENGTHS} -d 128 --hdim-v 64 --dtype fp8_e4m3",
    f"{LENGTHS} -d 128 --hdim-v 96 --dtype fp16",
    f"{LENGTHS} -d 128 --hdim-v 64 --dtype fp16 --softcap 20",
])  # fmt: skip
def test_other_problems_take_the_general_kernel(flags: str) -> None:
    assert algorithm_of(best(flags).kernel).language is Language.TRITON


def test_a_refusal_names_both_head_dims() -> None:
    problem = api.Problem.from_cli(f"{LENGTHS} -d 128 --hdim-v 32 --dtype fp16")
    kernel = best(NARROW_V).kernel
    refused = next(d for d in decide(problem, DEVICE) if d.kernel == kernel)
    assert isinstance(refused, api.Unsupported)
    (reason,) = [reason for reason in refused.reasons if reason.id == "K961"]
    assert reason.text == "the kernel is compiled for head dims of exactly 128 and, of V, 64, without padding"
    assert reason.hint == "--hdim 128 --hdim-v 64"


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize(("flags", "columns", "total"), [
    (NARROW_V, {"QMap": 128, "KMap": 128, "VMap": 64, "OutMap": 64}, 384),
    (WIDE_V, dict.fromkeys(("QMap", "KMap", "VMap", "OutMap"), 128), 512),
])  # fmt: skip
def test_the_buffers_of_k_hold_v(flags: str, columns: dict[str, int], total: int) -> None:
    """The ring has boxes of K, so they are as wide as V at least. Tensor memory holds O of the head dim of V."""
    kernel = best(flags).kernel
    types = {a.name: a.type for a in arguments(kernel)}
    assert {name: f"[1,1,128,{number}]," in types[name] for name, number in columns.items()} == dict.fromkeys(
        columns, True
    )
    assert constants(kernel)["D"] == kernel.signature.hdim_v
    assert constants(kernel)["TURNSTILE"] is False
    detail = dict(plan_of(api.Problem.from_cli(flags), kernel, DEVICE).stages[0].detail)
    assert detail["tensor memory"] == f"{total} of {TENSOR_COLUMNS} columns"
    assert detail["shared memory"] == "231256 bytes"


def test_kernels_of_one_head_dim_have_the_same_text_but_for_the_last_line() -> None:
    """Another head dim of V needs no other code: their rows of results stand."""
    blackwell = [k for k in kernels_of("sm_100a") if function_of(k) == BLACKWELL]
    assert {(k.signature.hdim, k.signature.hdim_v) for k in blackwell} == {(64, 64), (128, 128), *UNEQUAL_HDIMS}
    assert len({emit(k).rstrip().rsplit("\n", 1)[0] for k in blackwell}) == 1


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("flags", drawn([(NARROW_V,), (WIDE_V,)], 1, "head dims on Blackwell"))
def test_it_passes(flags: str, cache: str) -> None:
    found = record(flags, "sm_100a", cache)
    assert_clean(found)
    assert found.kernel is not None
    assert found.kernel.name == best(flags).kernel.name


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
def test_bytes_that_never_come_are_found(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, other = EXPECTED
    plant(text, other, monkeypatch)
    found = record("-H 1 -s 256 -d 128 --hdim-v 64 --dtype fp16", "sm_100a", cache)
    assert found.verdict is api.Verdict.LAUNCH_FAILED, found.notes
    assert "deadlock in forward_blackwell" in found.notes[0]
    assert "bytes are missing" in found.notes[0]
