"""Instruction counts agree with kernels of known instructions, and with the disassembler if it is installed."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain import arch
from fmha_cli.domain.errors import InternalError
from fmha_cli.toolchain.cuda import sass
from fmha_cli.toolchain.cuda.cubin import Cubin, CubinKernel
from fmha_cli.toolchain.cuda.sass import count, instructions_of, mnemonics_of, spills_of
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.instruction_classes import Isa, classes_of
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.builds.nvrtc_tiny import ARCHS, cubin_of, disassembly_of
from tests.support.builds.sass_probes import PROBES, Probe, capability

QUICK, CI = ("sm_80", "sm_90a"), ("sm_120a",)
SLOW = {
    arch: (pytest.mark.slow, pytest.mark.ci) if arch in CI else (pytest.mark.slow,)
    for arch in ARCHS
    if arch not in QUICK
}
CASES = [pytest.param(arch, marks=SLOW.get(arch, ())) for arch in ARCHS]
DISASSEMBLED = [
    pytest.param(arch, marks=(pytest.mark.slow, pytest.mark.ci) if arch == "sm_90a" else pytest.mark.slow)
    for arch in ARCHS
]
"""Each kernel is a call of the disassembler, which takes most of a second; Hopper has the instructions of Ampere too."""
ONE_NAME = {"UTCHMMA": "UTCMMA", "UTCQMMA": "UTCMMA", "IMUL": "IMAD", "FHADD": "FADD", "FHFMA": "FFMA"}
"""Mnemonics that share an opcode and so have one name in the table."""


def kernel_of(probe: Probe, arch: str) -> CubinKernel:
    (kernel,) = Cubin(cubin_of(probe.text(), arch)).kernels
    return kernel


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("arch", CASES)
def test_every_instruction_is_known(arch: str) -> None:
    names = mnemonics_of(capability(arch))
    for title, probe in PROBES.items():
        if not probe.on(arch):
            continue
        kernel = kernel_of(probe, arch)
        listing = count(kernel.code, names)
        assert listing.unknown == {}, title
        assert not (missing := set(probe.holds) - set(listing.instructions)), f"{title}: {missing}"
        assert listing.total == sum(listing.instructions.values())
        assert listing.code_bytes == 16 * listing.total <= len(kernel.code)


@pytest.mark.parametrize("arch", DISASSEMBLED)
def test_the_disassembler_counts_the_same(arch: str, tmp_path: Path) -> None:
    names = mnemonics_of(capability(arch))
    for title, probe in PROBES.items():
        if probe.on(arch):
            raw = cubin_of(probe.text(), arch)
            code = Cubin(raw).kernels[0].code
            theirs = mnemonics_in(disassembly_of(raw, tmp_path), ONE_NAME)
            while theirs and theirs[-1] == "NOP":
                theirs.pop()
            assert count(code, names).instructions == dict(sorted(Counter(theirs).items())), title


def mnemonics_in(listing: str, spelt: dict[str, str]) -> list[str]:
    """The first word of each mnemonic that ``nvdisasm -json`` prints for one kernel, in order."""
    (function,) = json.loads(listing)[1]
    words = (row["opcode"].split(".")[0] for row in function["sass-instructions"])
    return [spelt.get(word, word) for word in words]


@pytest.mark.slow
@pytest.mark.ci
def test_matrix_instructions_of_every_kind() -> None:
    classes = {
        arch: {
            title: count(kernel_of(PROBES[title], arch).code, mnemonics_of(capability(arch))).classes["matrix"]
            for title in ("matrices", "bytes", "warpgroups", "tensor_memory")
            if PROBES[title].on(arch)
        }
        for arch in ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
    }
    assert all(found["matrices"] >= 7 for found in classes.values())
    assert classes["sm_89"]["bytes"] == classes["sm_120a"]["bytes"] == 1 if "bytes" in classes["sm_120a"] else True
    assert classes["sm_90a"]["warpgroups"] == 3
    assert classes["sm_100a"]["tensor_memory"] == 2


@pytest.mark.parametrize(
    ("mnemonic", "classes"),
    [
        *[(name, {"matrix"}) for name in ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "QGMMA", "IGMMA", "UTCMMA")],
        ("LDS", {"shared"}),
        ("LDSM", {"shared"}),
        ("STSM", {"shared"}),
        ("ATOMS", {"shared", "atomic"}),
        ("LDG", {"global"}),
        ("STG", {"global"}),
        ("LD", {"global"}),
        ("LDGSTS", {"global", "async_copy"}),
        ("UTMALDG", {"async_copy"}),
        ("REDG", {"global", "atomic"}),
        ("RED", {"global", "atomic"}),
        ("ATOMG", {"global", "atomic"}),
        ("LDL", {"local"}),
        ("STL", {"local"}),
        ("LDC", {"constant"}),
        ("ULDC", {"constant"}),
        ("LDCU", {"constant"}),
        ("MUFU", {"transcendental"}),
        ("SHFL", {"shuffle"}),
        ("BAR", {"barrier"}),
        ("WARPSYNC", {"barrier"}),
        ("DEPBAR", {"wait"}),
        ("LDGDEPBAR", {"wait"}),
        ("BRA", {"branch"}),
        ("EXIT", {"branch"}),
        ("LDTM", {"tensor_memory"}),
        ("FFMA", set()),
        ("MOVM", {"shuffle"}),
        ("LEA", set()),
    ],
)  # fmt: skip
def test_classes(mnemonic: str, classes: set[str]) -> None:
    assert {name for name, pattern in classes_of(Isa.SASS).items() if pattern.match(mnemonic)} == classes


def test_an_opcode_belongs_to_its_generation() -> None:
    """0x435 is HFMA2 on Ampere and Hopper; 0x835 is a completely different instruction on workstation Blackwell."""
    ampere, hopper, blackwell, workstation = (mnemonics_of(c) for c in (86, 90, 103, 120))
    assert ampere[0x435] == hopper[0x435] == "HFMA2"
    assert 0x435 not in workstation
    assert (hopper[0x835], workstation[0x835]) == ("HFMA2", "IADD")
    assert (ampere[0x98E], hopper[0x98E]) == ("RED", "REDG")
    assert "HGMMA" not in ampere.values()
    assert "HGMMA" not in workstation.values()
    assert "UTCMMA" in blackwell.values()
    assert mnemonics_of(60) == {} == mnemonics_of(255)
    assert mnemonics_of(75)[0xA0A] == "FSET"


def test_what_is_unknown_is_counted_as_such() -> None:
    words = [(0x23C, 0), (0xABC, 0), (0xABC, 0), (0xDEF, 0), (0x918, 0), (0x918, 0)]
    code = b"".join(struct.pack("<QQ", *word) for word in words)
    listing = count(code, mnemonics_of(90))
    assert listing.instructions == {"HMMA": 1}
    assert listing.unknown == {"0xabc": 2, "0xdef": 1}
    assert (listing.total, listing.code_bytes, listing.classes["matrix"]) == (4, 64, 1)


def test_code_that_ends_within_an_instruction() -> None:
    with pytest.raises(MalformedObject, match="whole number"):
        list(instructions_of(bytes(24)))


def spilling(offsets: tuple[int, ...] | None) -> CubinKernel:
    (kernel,) = Cubin(tiny_cubin("k", (8,))).kernels
    width = {4: 4 << 9, 8: 5 << 9, 16: 6 << 9}
    words = [(0x387, width[4]), (0x983, width[8]), (0x987, width[16]), (0x984, width[4]), (0x983, width[4])]
    return replace(kernel, code=b"".join(struct.pack("<QQ", *word) for word in words), spill_offsets=offsets)


def test_spills_that_are_noted_and_spills_that_are_not() -> None:
    names = mnemonics_of(90)
    noted = spills_of(spilling((0, 16)), names)
    assert (noted.stores, noted.loads, noted.store_bytes, noted.load_bytes, noted.noted) == (1, 1, 4, 8, True)
    counted = spills_of(spilling(None), names)
    assert (counted.stores, counted.loads, counted.store_bytes, counted.load_bytes, counted.noted) == (
        2,
        2,
        20,
        12,
        False,
    )
    with pytest.raises(MalformedObject, match="LDS of k is marked"):
        spills_of(spilling((48,)), names)


def test_a_damaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_cuda_sass.json").write_text('{"schema": "fmha.sass/2", "rows": []}')
    monkeypatch.setattr(arch, "arch_root", lambda: tmp_path)
    monkeypatch.setattr(sass, "arch_document", arch.arch_document.__wrapped__)
    with pytest.raises(InternalError, match=r"fmha\.sass/1"):
        mnemonics_of(90)


def test_no_opcode_has_two_names() -> None:
    rows = arch.arch_document("_cuda_sass.json", "fmha.sass/1")["rows"]
    for major in (8, 9, 10, 12):
        codes = [c for row in rows if major in row["majors"] for group in row["opcodes"].values() for c in group]
        assert len(codes) == len(set(codes)) == len(mnemonics_of(10 * major)) > 150
