"""FlashAttention's own host code launches on an emulated device as ours does: the same launches, and the same outputs bit for bit."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from tests.checks import nvptx_upstream

SECONDS = 3600


def _told(text: str, device: str = "emu:sm_80") -> dict[str, Any]:
    done = nvptx_upstream.asked(text, device, SECONDS)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.promise("FlashAttention's own host code makes the same launches, and leaves the same bits.")
@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_upstreams_launches_and_ours_leave_the_same() -> None:
    """The smallest kernel of all: NVRTC compiles it for half a minute, and the host code for as long."""
    told = _told("-b 1 -H 2 -s 200 -d 32 --causal --lse")
    assert (told["api"], told["kernels"]) == ("mha_fwd", ["flash_fwd_kernel"])
    assert set(told["bytes"]) == {"o", "lse"}
    ours, theirs = told["instructions"]
    assert ours == theirs != []
    assert nvptx_upstream.faults(told) == []


@pytest.mark.promise("FlashAttention's own host code makes the same launches, and leaves the same bits.")
@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("launch_faults", ["grid: 1 upstream, 2 here"], "grid"),
        ("differ", ["o"], "o differs"),
        ("constant", ["lse"], "lse holds one value"),
        ("findings", [[{"kind": "shared-race", "address": 7, "text": "a race"}], []], "shared-race: a race"),
        ("instructions", [[1], [2]], "instructions"),
        ("instructions", [[], []], "nothing was launched"),
        ("bytes", {}, "nothing was compared"),
    ],
)
def test_each_difference_is_a_fault(member: str, value: object, said: str) -> None:
    right = {
        "launch_faults": [], "differ": [], "constant": [], "findings": [[], []], "instructions": [[5], [5]], "bytes": {"o": 4},
    }  # fmt: skip
    assert nvptx_upstream.faults(right) == []
    (fault,) = nvptx_upstream.faults(right | {member: value})
    assert said in fault


def test_a_problem_that_upstream_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row goes missing."""
    failed = subprocess.CompletedProcess((), 1, stdout="", stderr="Traceback\nRuntimeError: no kernel\n")
    monkeypatch.setattr(nvptx_upstream, "asked", lambda problem: failed)
    with pytest.raises(ValueError, match="no kernel"):
        nvptx_upstream.row_of("-d 9")


def test_a_finding_of_upstreams_alone_stands_in_the_table() -> None:
    text = "lane 16 writes 4 bytes at 0x56: at the end of an allocation of 560 bytes (0x10 to 0x56)"
    told = {
        "launch_faults": [], "differ": [], "constant": [], "findings": [[], [{"kind": "out-of-bounds", "text": text}]], "instructions": [[5], [5]],
        "bytes": {"o": 4}, "api": "mha_fwd", "kernels": ["k"],
    }  # fmt: skip
    assert nvptx_upstream.faults(told) == []
    row = {"problem": "-d 8", "told": told, "faults": []}
    table = nvptx_upstream.summary([row])
    assert "| same | out-of-bounds: lane 16 writes 4 bytes: at the end of an allocation of 560 bytes |" in table


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_upstreams_combine_kernel_writes_behind_the_lse() -> None:
    """140 rows are not a whole number of blocks. Our workspace has room; PyTorch's allocator hides it by its blocks of
    512 bytes.
    """
    told = _told("-b 1 -H 2 -s 70 --seqlen-k 600 -d 32 --splits 4 --lse --softcap 20")
    assert nvptx_upstream.faults(told) == []
    ours, (theirs,) = told["findings"]
    assert ours == []
    assert theirs["kind"] == "out-of-bounds"
    assert theirs["instruction"].startswith("st.global.f32")
    assert "at the end of an allocation of 560 bytes" in theirs["text"]
