"""The emulator as a device of ``fmha``: listed without loading it, attached in the worker, findings become verdicts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from fmha_amdgpu_emu import AmdgpuEmulator
from fmha_amdgpu_emu.device_facts import emulated_archs

from fmha_amdgpu_emu_tests.support.emu_device import kernel
from fmha_amdgpu_emu_tests.support.harness import core
from fmha_cli import api, plugin
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.emulation import Executed, Finding, FindingKind
from fmha_cli.plugin import read_report

REGISTRY = api.Registry(
    entries=lambda: (
        EntryPoint(name="amdgpu-emu", value="fmha_amdgpu_emu", group="fmha"),
        EntryPoint(name="asm", value="fmha_amdgpu_emu_tests.support.asm_backend", group="fmha"),
    )
)
PROBLEM = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp16")
LOAD = (
    "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_load_dwordx2 s[8:9], s[0:1], 0x10\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v0, 0\n"
)
"""s[4:5] the arena, s[6:7] Q, s[8:9] the end of Q; v0 is zero."""

KERNELS = {
    "reads_q": ("global_load_dword v1, v0, s[6:7]\ns_waitcnt vmcnt(0)", None, ""),
    "reads_behind_q": ("global_load_dword v1, v0, s[8:9]\ns_waitcnt vmcnt(0)", "out-of-bounds", "q"),
    "reads_before_q": ("global_load_dword v1, v0, s[6:7] offset:-4\ns_waitcnt vmcnt(0)", "out-of-bounds", "q"),
    "writes_q": ("v_mov_b32 v1, 0\nglobal_store_dword v0, v1, s[6:7]\ns_waitcnt vmcnt(0)", "out-of-bounds", "q"),
    "does_not_wait": (
        "global_load_dword v1, v0, s[6:7]\nv_add_u32 v2, v1, v1\ns_waitcnt vmcnt(0)",
        "missing-wait",
        "v1",
    ),
    "never_wrote": (
        "v_and_b32 v6, 0, v5\nglobal_load_dword v1, v6, s[6:7]\ns_waitcnt vmcnt(0)",
        "uninitialised-register",
        "v6",
    ),
}
"""Name -> (body, kind of finding, a word in its text)."""


def test_devices_are_those_of_the_facts() -> None:
    devices = AmdgpuEmulator().devices()
    assert [d.id for d in devices] == [f"emu:{arch}" for arch in emulated_archs()]
    assert all(d.emulated and d.units > 1 and d.archs == (d.id[4:],) for d in devices)
    assert isinstance(AmdgpuEmulator(), plugin.Emulator)


def test_listing_devices_loads_nothing_heavy() -> None:
    code = (
        "import sys; from fmha_cli.api import build_registry\n"
        "ids = [d.id for e in build_registry().emulators.values() for d in e.devices()]\n"
        "assert 'emu:gfx942' in ids, ids\n"
        "print([m for m in ('numpy', 'hip', 'fmha_amdgpu_emu.building', 'fmha_amdgpu_emu.attached') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_is_the_sum_of_its_launches() -> None:
    found = Finding(kind=FindingKind.LDS_RACE, kernel="k", instruction="i", address=4, text="t")
    counts = Executed(kernel="k", instructions=5, classes={"valu": 5})
    launch = to_json(plugin.Observed((found,), (counts,)))
    stopped = {**launch, "findings": [], "fault": "v_what is not implemented"}
    seen = read_report("\n".join(json.dumps(one) for one in (launch, launch, stopped)) + "\n")
    assert [(e.launches, e.instructions, e.classes) for e in seen.executed] == [(3, 15, {"valu": 15})]
    assert [f.count for f in seen.findings] == [2]
    assert seen.fault == "v_what is not implemented"
    assert read_report("") == plugin.Observed()
    for broken in ("{", "[]", '{"executed": []}'):
        with pytest.raises(ValueError):
            read_report(broken)


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The kernels as code objects; skips the tests without LLVM or hip-python."""
    pytest.importorskip("hip")
    core()
    folder = tmp_path_factory.mktemp("asm")
    out = {}
    for name, (body, _, _) in KERNELS.items():
        out[name] = folder / f"{name}.code"
        out[name].write_bytes(kernel("gfx942", folder, LOAD + body))
    return out


def run(name: str, codes: dict[str, Path], monkeypatch: pytest.MonkeyPatch, **options: object) -> api.Record:
    monkeypatch.setenv("ASM_CODE", str(codes[name]))
    return api.run(PROBLEM, registry=REGISTRY, backend="asm", device="emu:gfx942", **options)[0]


@pytest.mark.promise("An emulated AMD device finds races, missing waits and accesses out of bounds.")
@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_does_wrong_is_its_verdict(
    name: str, codes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbouring tensors share one allocation, so only the regions distinguish a guard from Q."""
    _, kind, word = KERNELS[name]
    row = run(name, codes, monkeypatch)
    expected = {None: "PASSED", "out-of-bounds": "OUT_OF_BOUNDS"}.get(kind, "HAZARD")
    assert row.verdict.value == expected, row.notes
    assert [f.kind for f in row.findings or ()] == ([kind] if kind else [])
    assert all(word in f.text for f in row.findings or ())
    assert (row.device, row.measurement) == ("emu:gfx942", None)
    assert row.executed
    assert row.executed[0].instructions >= 6


def test_without_checks_only_bounds_are_looked_at(codes: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("does_not_wait", codes, monkeypatch, emu_checks=False).verdict is api.Verdict.PASSED
    assert run("reads_behind_q", codes, monkeypatch, emu_checks=False).verdict is api.Verdict.OUT_OF_BOUNDS


def test_rows_follow_each_other_in_one_worker(codes: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding of one row does not appear again in the next."""
    monkeypatch.setenv("ASM_CODE", str(codes["does_not_wait"]))
    other = api.Problem.from_cli("-H 1 -s 24 -d 8 --dtype fp16")
    rows = api.run(PROBLEM, other, registry=REGISTRY, backend="asm", device="emu:gfx942")
    assert [r.verdict.value for r in rows] == ["HAZARD", "HAZARD"]
    assert [[f.count for f in r.findings or ()] for r in rows] == [[1], [1]]
    assert [[c.launches for c in r.executed or ()] for r in rows] == [[1], [1]]


@pytest.mark.slow
def test_composable_kernel_runs_there(tmp_path: Path) -> None:
    """The first command in the documentation works, with sources from the package index."""
    for name in ("clang-22", "ld.lld-22", "llvm-objdump-22"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    problem = api.Problem.from_cli("-b 1 -H 1 -s 200 -d 128 --causal --splits 1")
    (row,) = api.run(problem, backend="ck_tile", device="emu:gfx942")
    assert row.verdict is api.Verdict.PASSED, row.notes
    assert row.findings == ()
    total = sum(counts.matrix_flops for counts in row.executed or ())
    assert problem.flops() <= total <= 4 * problem.flops(dense=True)
