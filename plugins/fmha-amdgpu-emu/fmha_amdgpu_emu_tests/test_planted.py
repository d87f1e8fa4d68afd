"""Plants faults in the assembly of real kernels. The emulator catches and names them, or a run explains the miss."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fmha_amdgpu_emu_tests.support.harness import core, disassemble, tool
from fmha_cli.api import build_registry
from tests.support.careful import CAREFUL
from tests.support.planted.assembly import NOTHING, Planted, body, faults, planted
from tests.support.planted.assembly_rows import ORDERING, chosen_of, rows
from tests.support.planted.assembly_runs import KERNELS, CkKernel, PlantedKernel
from tests.support.planted.code_objects import with_code_object
from tests.support.planted.outcomes import EXPLAINED, Caught, sampled, summary

QUICK = CkKernel("fwd qr_async d64", "gfx942", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 64 --splits 1", "fwd")
"""A kernel that other tests of CI compile too."""

HAZARDS = {
    Planted.WAIT_DROPPED: {"missing-wait", "lds-race"},
    Planted.WAIT_RAISED: {"missing-wait", "lds-race"},
    Planted.BARRIER: {"lds-race"},
    Planted.SIGNAL: {"divergent-barrier"},
    Planted.WAIT: {"divergent-barrier"},
}
"""Finding kinds, one of which names a fault of the class."""

TEXT = """
k: ; @k
; %bb.0:
\ts_load_dwordx2 s[2:3], s[0:1], 0x8
\ts_waitcnt vmcnt(63) lgkmcnt(0)
\tbuffer_load_dword v6, s[44:47], 0 offen offset:4092 lds
\tglobal_load_dwordx4 v[2:5], v2, s[2:3]
.LBB0_1:                                ; =>This
\t;;#ASMSTART
s_mov_b64 exec s[50:51]
\tv_cmpx_le_u32 exec, 1, v5
\t;;#ASMEND
\ts_and_saveexec_b64 s[4:5], vcc
\tds_write2_b32 v89, v113, v114 offset0:128 offset1:254
\ts_barrier
\tv_mfma_f32_32x32x8_f16 v[18:33], v[58:59], v[46:47], v[18:33]
\tv_add_f32_e32 v1, v2, v3
\ts_endpgm
\t.section .rodata
\t.amdhsa_kernel k
\t.amdhsa_next_free_vgpr 128
"""


def test_every_place_of_a_text_is_found() -> None:
    assert [c.mnemonic for c in body(TEXT)][:3] == ["s_load_dwordx2", "s_waitcnt", "buffer_load_dword"]
    found: dict[Planted, list[str]] = {}
    for fault in faults(TEXT, "gfx942", 128):
        assert TEXT.splitlines()[fault.lines[0]].strip() == fault.before
        found.setdefault(fault.kind, []).append(fault.after)
    assert found[Planted.WAIT_DROPPED] == found[Planted.BARRIER] == [NOTHING]
    assert found[Planted.WAIT_RAISED] == ["s_waitcnt vmcnt(63) lgkmcnt(1)"]
    assert found[Planted.EXEC] == ["", "", "s_mov_b64 s[4:5], exec"]
    assert found[Planted.SWAPPED] == ["v_mfma_f32_32x32x8_f16 v[18:33], v[46:47], v[58:59], v[18:33]"]
    assert found[Planted.BY_AN_ELEMENT] == [
        "s_load_dwordx2 s[2:3], s[0:1], 0xc",
        "buffer_load_dword v6, s[44:47], 0 offen offset:4094 lds",
        "global_load_dwordx4 v[2:5], v2, s[2:3] offset:2",
        "ds_write2_b32 v89, v113, v114 offset0:129 offset1:255",
    ]
    assert found[Planted.BY_A_ROW][0] == "buffer_load_dword v6, s[44:47], 0 offen offset:3964 lds"
    assert found[Planted.BY_A_ROW][2] == "ds_write2_b32 v89, v113, v114 offset0:96 offset1:222"
    assert found[Planted.FAR_AWAY][1].split("\n") == [
        "v_add_u32_e32 v6, 0x1000000, v6",
        "buffer_load_dword v6, s[44:47], 0 offen offset:4092 lds",
        "v_add_u32_e32 v6, 0xff000000, v6",
    ]
    assert "\n" in found[Planted.FAR_AWAY][2]
    assert found[Planted.FAR_AWAY][2].endswith("s[2:3]"), "the load replaces its address"
    assert found[Planted.RENUMBERED] == [
        "v_cmpx_le_u32 exec, 1, v6",
        "v_add_f32_e32 v1, v3, v3",
        "v_add_f32_e32 v1, v2, v4",
    ]


def test_the_halves_of_a_split_barrier_are_faults_of_their_own() -> None:
    text = TEXT.replace("s_barrier", "s_barrier_signal -1\n\ts_barrier_wait -1")
    found = [f for f in faults(text, "gfx1201", 128) if "barrier" in f.kind]
    assert [f.kind for f in found] == [Planted.SIGNAL, Planted.BARRIER, Planted.WAIT]
    both = planted(text, found[1])
    assert "s_barrier" not in both
    assert both.count(NOTHING) == 2
    assert len(both.splitlines()) == len(text.splitlines())


def test_a_code_object_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no plain offload bundle"):
        with_code_object(b"\x7fELF", b"code")


@pytest.fixture(scope="module", params=[QUICK], ids=lambda k: k.name)
def kernel(request: pytest.FixtureRequest) -> Iterator[PlantedKernel]:
    with opened(request.param) as out:
        yield out


def opened(kernel: CkKernel) -> PlantedKernel:
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    core()
    return PlantedKernel(kernel, build_registry(), Path(tempfile.mkdtemp(prefix="planted-")))


def sound(row: Mapping[str, Any]) -> None:
    """Assert that the right check caught a fault, or that none could."""
    kind, caught = Planted(row["fault"]), Caught(row["caught"])
    assert caught in (*EXPLAINED, Caught.NAMED, Caught.NUMBERS, Caught.HANGS), row
    assert row["verdict"] in ("PASSED", "WRONG", "HAZARD", "OUT_OF_BOUNDS", "LAUNCH_FAILED", "TIMED_OUT", "NAN"), row
    if kind in ORDERING:
        assert caught is not Caught.NUMBERS, row
    if caught is Caught.NAMED and row["verdict"] != "LAUNCH_FAILED":
        assert row["first"]["instruction"], row
        assert row["first"]["address"], row
        assert set(row["kinds"]) & HAZARDS.get(kind, set(row["kinds"])), row
    if kind is Planted.SWAPPED:
        assert caught in (Caught.NUMBERS, Caught.NEVER_EXECUTED, Caught.NO_EFFECT), row  # no effect: in masked tiles


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_the_text_unchanged_is_the_kernel(kernel: PlantedKernel, tmp_path: Path) -> None:
    """The unchanged text, assembled again, gives the same instructions at the same addresses, and passes."""
    again, original = tmp_path / "again.co", tmp_path / "original.co"
    again.write_bytes(kernel.assembled(kernel.text))
    original.write_bytes(kernel.original)
    listings = [disassemble(path).split("Disassembly")[-1].split() for path in (again, original)]
    assert listings[0] == listings[1]
    assert len(listings[0]) > 1000
    assert (kernel.plain.verdict, kernel.plain.findings) == ("PASSED", ())


@pytest.mark.promise("An emulated AMD device finds races, missing waits and accesses out of bounds.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_planted_faults_are_caught(kernel: PlantedKernel) -> None:
    """A seeded sample of each class is caught through the product's own code path."""
    every = faults(kernel.text, kernel.kernel.arch, kernel.problem.hdim * 2)
    found = list(rows(kernel, chosen_of(every, "", 1, 1, 11), every))
    for row in found:
        sound(row)
    how = Counter((row["fault"], row["caught"]) for row in found)
    assert len({fault for fault, _ in how}) == 9
    assert how["barrier deleted", "named"] == 1, how
    assert how["wait dropped", "named"] == 1, how
    assert how["matrix operands swapped", "numbers"] == 1, how
    assert f"| **all** | {len(found)} |" in summary([{"kernel": "k", **row} for row in found])


@pytest.mark.promise("A careful run of an emulator leaves the results, counts and findings of a fast one.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_careful_run_sees_the_same(kernel: PlantedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernel, and of two faults of each class."""
    monkeypatch.setenv(CAREFUL, "1")
    assert kernel.run() == kernel.plain
    for fault in sampled(faults(kernel.text, kernel.kernel.arch, kernel.problem.hdim * 2), 2, seed=1):
        with suppress(ValueError):  # it does not assemble
            kernel.run(fault)


def triton_rows(arch: str, wanted: str, count: str, registers: str) -> list[dict[str, Any]]:
    pytest.importorskip("triton", reason="Triton's compiler is not installed (pip install triton)")
    from tests.checks.emulator_faults import of_triton

    core()
    return [dict(row) for row in of_triton(arch, wanted, int(count) if count else None, int(registers), 5)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_planted_faults_in_another_compilers_kernel(arch: str) -> None:
    found = triton_rows(arch, "barrier", "1", "1")
    for row in found:
        sound(row)
    how = {row["fault"]: row["caught"] for row in found}
    assert how["barrier deleted"] == "named"
    if arch == "gfx1201":
        assert how["barrier's signal deleted"] == how["barrier's wait deleted"] == "named"
        kinds = {row["fault"]: set(row["kinds"]) for row in found}
        assert "divergent-barrier" in kinds["barrier's signal deleted"] & kinds["barrier's wait deleted"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("one", KERNELS, ids=lambda k: f"{k.arch} {k.family}")
def test_every_planted_fault(one: CkKernel) -> None:
    """Every wait, barrier, address, mask and matrix instruction is caught; registers are limited to 60."""
    with opened(one) as subject:
        assert (subject.plain.verdict, subject.plain.findings) == ("PASSED", ())
        every = faults(subject.text, one.arch, subject.problem.hdim * 2)
        for row in rows(subject, chosen_of(every, "", None, 60, 0), every):
            sound(row)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_every_planted_fault_in_another_compilers_kernel(arch: str) -> None:
    for row in triton_rows(arch, "", "", "60"):
        sound(row)
