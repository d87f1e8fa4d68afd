"""The Blackwell kernel in Gluon: chosen where it fits, executed on an emulated device, and faults planted in its text are found."""

from __future__ import annotations

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of
from fmha_triton.deciding import decide
from fmha_triton.emit import text_of
from fmha_triton.plan import grid_of, plan_of

from fmha_cli import api, plugin
from fmha_triton_tests.support.emulated_runs import assert_clean, drawn, needs_triton, plant, record

DEVICE = plugin.DeviceFacts(id="none", archs=("sm_100a",), units=4)
SMALL = "-H 2 -s 256 -d 64 --dtype fp16"
FAULTS = {
    "buffers are taken before they are ready": (
        "            mbarrier.wait(self.own.index(self.index), self.phase)\n",
        "",
        "missing-wait",
    ),
    "O is stored without a fence": (
        "    fence_async_shared()\n    room.release()",
        "    room.release()",
        "missing-fence",
    ),
    "O is not multiplied by the factors": ("spread(alpha, PART)", "spread(alpha * 0 + 1, PART)", ""),
}
"""The text, what stands there instead, and the finding; without one, the numbers are wrong. Head dim 64, 2 blocks of keys."""


def candidates(flags: str) -> list[api.Supported]:
    found = [d for d in decide(api.Problem.from_cli(flags), DEVICE) if isinstance(d, api.Supported)]
    return sorted(found, key=lambda d: d.rank)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.parametrize(("flags", "words", "here"), [
    (SMALL, "one CTA: non-causal, d 64, 16 bits", "here one CTA"),
    ("-H 2 -s 256 -d 128 --dtype bf16", "multi-CTA: non-causal, d 128, 16 bits", "here num_ctas 2"),
    ("-H 2 -s 256 -d 128 --dtype bf16 --causal", "one CTA: causal, d 128, 16 bits", "here one CTA"),
])  # fmt: skip
def test_it_is_first_where_it_fits_and_says_what_upstream_takes(flags: str, words: str, here: str) -> None:
    first = candidates(flags)[0]
    assert function_of(first.kernel) == BLACKWELL
    assert words in first.note
    assert first.note.endswith(here)


@pytest.mark.parametrize("flags", ["-H 2 -s 256 -d 256 --dtype fp16", "-H 2 -s 256 -d 64 --dtype fp16 --softcap 20"])
def test_other_problems_take_the_general_kernel(flags: str) -> None:
    assert all(function_of(d.kernel) != BLACKWELL for d in candidates(flags))


def test_the_grid_fills_the_device_once() -> None:
    """A tile is 256 rows of a head; programs take further tiles in turn."""
    kernel = candidates(SMALL)[0].kernel
    many = api.Problem.from_cli("-b 2 -H 3 -s 300 -d 64 --dtype fp16")
    assert algorithm_of(kernel).block_m == 256
    assert grid_of(many, kernel, 1, 4) == (4, 1, 1)
    assert grid_of(many, kernel, 1, 148) == (12, 1, 1)
    assert dict(plan_of(many, kernel, DEVICE).stages[0].detail)["grid"] == "4 x 1 x 1"


def test_barriers_are_never_invalidated() -> None:
    """The other block of a cluster may still signal one."""
    assert "invalidate" not in text_of("channels").replace("never invalidated", "") + text_of("blackwell")


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("flags", drawn([
    (SMALL,),
    ("-b 2 -H 4 --kv-heads 2 -s 300 --seqlen-k 333 -d 128 --dtype bf16 --causal --lse",),
    ("-H 3 -s 200 --seqlen-k 150 -d 64 --dtype bf16 --causal --lse",),
], 1, "Blackwell"))  # fmt: skip
def test_it_passes(flags: str, cache: str) -> None:
    found = record(flags, "sm_100a", cache)
    assert_clean(found)


@pytest.mark.promise("The Blackwell kernel passes on emulated devices: fp8, unlike head dims, clusters of CTAs.")
@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("name", drawn([(name,) for name in FAULTS], 1, "faults of Blackwell"))
def test_a_planted_fault_is_found(name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, other, finding = FAULTS[name]
    plant(text, other, monkeypatch)
    found = record(SMALL, "sm_100a", cache)
    if finding:
        assert found.verdict is api.Verdict.HAZARD, found.notes
        assert finding in {one.kind for one in found.findings}
    else:
        assert found.verdict is api.Verdict.WRONG, found.notes
