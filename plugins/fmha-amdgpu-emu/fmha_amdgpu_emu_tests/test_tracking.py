"""Planted faults in waits, registers and LDS order are found and named; correct code has no findings."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.emu_device import Device, device, kernels
from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets

ALL = 2**64 - 1
Finding = dict[str, Any]


def names(arch: str) -> dict[str, str]:
    """The mnemonics and waits that fill the texts below."""
    if arch == "gfx1201":
        return {
            "load": "global_load_b32", "store": "global_store_b32", "sload": "s_load_b64", "read": "ds_load_b32",
            "write": "ds_store_b32", "vm0": "s_wait_loadcnt 0x0", "vm1": "s_wait_loadcnt 0x1",
            "ds0": "s_wait_dscnt 0x0", "ds1": "s_wait_dscnt 0x1", "sm0": "s_wait_kmcnt 0x0",
            "flat0": "s_wait_loadcnt_dscnt 0x0", "fload": "flat_load_b32",
            "barrier": "s_barrier_signal -1\ns_barrier_wait 0xffff", "atomic": "global_atomic_add_u32",
            "old": "th:TH_ATOMIC_RETURN", "sstore": "scratch_store_b32", "slane": "scratch_load_b32",
        }  # fmt: skip
    rdna = arch == "gfx1100"
    return {
        "load": "global_load_b32" if rdna else "global_load_dword",
        "store": "global_store_b32" if rdna else "global_store_dword",
        "sload": "s_load_b64" if rdna else "s_load_dwordx2",
        "read": "ds_load_b32" if rdna else "ds_read_b32",
        "write": "ds_store_b32" if rdna else "ds_write_b32",
        "vm0": "s_waitcnt vmcnt(0)", "vm1": "s_waitcnt vmcnt(1)",
        "ds0": "s_waitcnt lgkmcnt(0)", "ds1": "s_waitcnt lgkmcnt(1)", "sm0": "s_waitcnt lgkmcnt(0)",
        "flat0": "s_waitcnt vmcnt(0) lgkmcnt(0)", "fload": "flat_load_b32" if rdna else "flat_load_dword",
        "barrier": "s_barrier", "atomic": "global_atomic_add_u32" if rdna else "global_atomic_add",
        "old": "sc0" if arch in ("gfx942", "gfx950") else "glc",
        "sstore": "scratch_store_b32" if rdna else "scratch_store_dword",
        "slane": "scratch_load_b32" if rdna else "scratch_load_dword",
    }  # fmt: skip


# Name, text, findings (kind, mnemonic without its suffix), each in order.
MISSING, UNDEFINED = "missing-wait", "uninitialised-register"
SNIPPETS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("waited", "{load} v2, v1, s[4:5]\n{vm0}\nv_mov_b32 v3, v2", ()),
    ("not_waited", "{load} v2, v1, s[4:5]\nv_mov_b32 v3, v2", ((MISSING, "v_mov_b32"),)),
    ("reported_once", "{load} v2, v1, s[4:5]\nv_mov_b32 v3, v2\nv_mov_b32 v4, v2", ((MISSING, "v_mov_b32"),)),
    ("in_order", "{load} v2, v1, s[4:5]\n{load} v3, v1, s[4:5] offset:4\n{vm1}\nv_mov_b32 v4, v2", ()),
    ("the_newer", "{load} v2, v1, s[4:5]\n{load} v3, v1, s[4:5] offset:4\n{vm1}\nv_mov_b32 v4, v3", ((MISSING, "v_mov_b32"),)),
    ("overwritten", "{load} v2, v1, s[4:5]\nv_mov_b32 v2, 0", ((MISSING, "v_mov_b32"),)),
    ("loaded_again", "{load} v2, v1, s[4:5]\n{load} v2, v1, s[4:5] offset:4\n{vm0}\nv_mov_b32 v3, v2", ()),
    ("loaded_again_not_waited", "{load} v2, v1, s[4:5]\n{load} v2, v1, s[4:5]\n{vm1}\nv_mov_b32 v3, v2", ((MISSING, "v_mov_b32"),)),
    ("stored_before_it_came", "{load} v2, v1, s[4:5]\n{store} v1, v2, s[4:5]", ((MISSING, "{store}"),)),
    ("as_an_address", "{load} v2, v1, s[4:5]\n{load} v3, v2, s[4:5]", ((MISSING, "{load}"),)),
    ("atomic_waited", "{atomic} v2, v1, v3, s[4:5] {old}\n{vm0}\nv_mov_b32 v4, v2", ()),
    ("atomic_not_waited", "{atomic} v2, v1, v3, s[4:5] {old}\nv_mov_b32 v4, v2", ((MISSING, "v_mov_b32"),)),
    ("atomic_without_result", "{atomic} v1, v3, s[4:5]\nv_mov_b32 v4, v3", ()),
    ("scalar_waited", "{sload} s[8:9], s[4:5], 0x0\n{sm0}\ns_mov_b32 s10, s8", ()),
    ("scalar_not_waited", "{sload} s[8:9], s[4:5], 0x0\ns_mov_b32 s10, s9", ((MISSING, "s_mov_b32"),)),
    ("scalar_in_vector", "{sload} s[8:9], s[4:5], 0x0\nv_mov_b32 v3, s9", ((MISSING, "v_mov_b32"),)),
    ("scalar_overwritten", "{sload} s[8:9], s[4:5], 0x0\ns_mov_b32 s9, 0", ((MISSING, "s_mov_b32"),)),
    ("lds_waited", "{read} v2, v1\n{ds0}\nv_mov_b32 v3, v2", ()),
    ("lds_in_order", "{read} v2, v1\n{read} v3, v1 offset:4\n{ds1}\nv_mov_b32 v4, v2", ()),
    ("lds_many", "\n".join(f"{{read}} v{10 + k}, v1" for k in range(12)) + "\nv_mov_b32 v4, v10", ((MISSING, "v_mov_b32"),)),
    ("lds_more_than_counted", "{read} v10, v1\n" + 9 * "".join(f"{{read}} v{k}, v1\n" for k in range(11, 19)) + "v_mov_b32 v4, v10", ()),
    ("lds_last_of_many", 9 * "".join(f"{{read}} v{k}, v1\n" for k in range(11, 19)) + "v_mov_b32 v4, v18", ((MISSING, "v_mov_b32"),)),
    ("lds_not_waited", "{read} v2, v1\n{vm0}\nv_mov_b32 v3, v2", ((MISSING, "v_mov_b32"),)),
    ("flat_waited", "{fload} v2, v[6:7]\n{flat0}\nv_mov_b32 v3, v2", ()),
    ("flat_half_waited", "{fload} v2, v[6:7]\n{vm0}\nv_mov_b32 v3, v2", ((MISSING, "v_mov_b32"),)),
    ("undefined_moved", "v_mov_b32 v3, v30", ()),
    ("undefined_address", "{load} v2, v30, s[4:5]", ((UNDEFINED, "{load}"),)),
    ("undefined_stored", "{store} v1, v30, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("undefined_through_a_move", "v_mov_b32 v3, v30\n{store} v1, v3, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("undefined_sum", "v_add_f32 v3, v30, v1\n{store} v1, v3, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("defined_after_all", "v_mov_b32 v30, 1\n{store} v1, v30, s[4:5]", ()),
    ("spilt", "{sstore} off, v30, s6\n{slane} v31, off, s6\n{flat0}", ()),
    ("spilt_and_used", "{sstore} off, v30, s6\n{slane} v31, off, s6\n{flat0}\n{store} v1, v31, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("private_never_written", "{slane} v31, off, s6\n{flat0}\n{store} v1, v31, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("chosen", "v_cndmask_b32 v3, v1, v30, s[20:21]\n{store} v1, v3, s[4:5]", ((UNDEFINED, "{store}"),)),
    ("not_chosen", "v_cndmask_b32 v3, v1, v30, s[22:23]\n{store} v1, v3, s[4:5]", ()),
    ("lane_written", "v_writelane_b32 v30, s4, 3\nv_readlane_b32 s12, v30, 3", ()),
    ("other_lane_read", "v_writelane_b32 v30, s4, 3\nv_readlane_b32 s12, v30, 4", ((UNDEFINED, "v_readlane_b32"),)),
)  # fmt: skip


class TrackedSnippets:
    def __init__(self, arch: str, opened: Device, folder: Path) -> None:
        self.arch, self.device = arch, opened
        self.names = names(arch)
        texts = {name: text.format(**self.names) for name, text, _ in SNIPPETS}
        if arch in WAVE32:
            texts = {name: text.replace("s[20:21]", "s20").replace("s[22:23]", "s22") for name, text in texts.items()}
        self.snippets = Snippets(arch, folder, texts)
        self.lanes = self.snippets.lanes
        self.address = opened.put(np.zeros(1024, np.uint32))


@pytest.fixture(scope="module", params=ARCHS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackedSnippets]:
    with device(request.param) as opened:
        yield TrackedSnippets(request.param, opened, tmp_path_factory.mktemp(request.param))


def found(findings: list[Finding]) -> list[tuple[str, str]]:
    """The (kind, mnemonic) of each, without encoding suffixes."""
    return [(f["kind"], f["instruction"].split()[0].removesuffix("_e32").removesuffix("_e64")) for f in findings]


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in SNIPPETS])
def test_one_wave(case: TrackedSnippets, name: str, expected: tuple[tuple[str, str], ...]) -> None:
    defined = np.full(512, ALL, np.uint64)
    defined[[30, 31]] = 0
    lanes = np.arange(64) * 4
    place = case.address + lanes
    after = case.snippets.run(
        name,
        v={1: lanes, 3: 1, 6: np.stack([place & 0xFFFFFFFF, place >> 32])},
        s={4: case.address & 0xFFFFFFFF, 5: case.address >> 32, 20: 1, 21: 0, 22: 0, 23: 0},
        defined=defined, lds=np.zeros(1024, np.uint8), scratch=np.zeros(64 * 64, np.uint8), track=True,
    )  # fmt: skip
    assert found(after.findings) == [(kind, text.format(**case.names)) for kind, text in expected]
    assert not case.snippets.run(
        name,
        s={4: case.address & 0xFFFFFFFF, 5: case.address >> 32},
        v={1: lanes, 6: np.stack([place & 0xFFFFFFFF, place >> 32])},
        lds=np.zeros(1024, np.uint8),
        scratch=np.zeros(64 * 64, np.uint8),
    ).findings


def test_undefined_lanes_are_told_apart(case: TrackedSnippets) -> None:
    """Only lanes that EXEC enables matter, and the finding names a lane."""
    defined = np.full(512, ALL, np.uint64)
    defined[30] = ALL & ~(1 << 5)
    s = {4: case.address & 0xFFFFFFFF, 5: case.address >> 32}

    def run(mask: int) -> list[Finding]:
        rows = {1: np.arange(64) * 4}
        return case.snippets.run("undefined_stored", v=rows, s=s, defined=defined, exec=mask, track=True).findings

    assert not run(0xFFDF)
    (finding,) = run(0xFFFF)
    assert finding["lane"] == 5
    assert "v30" in finding["text"]


@pytest.mark.parametrize(
    ("text", "undefined"),
    [
        ("v_pk_add_f32 v[8:9], v[2:3], v[30:31] op_sel_hi:[1,0]", 31),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[30:31] op_sel:[0,1]", 30),
        ("v_pk_mov_b32 v[8:9], v[2:3], v[30:31] op_sel:[0,1]", 30),
    ],
)
def test_the_other_half_of_a_pair_is_not_read(tmp_path: Path, text: str, undefined: int) -> None:
    """Compilers do not write the dword that op_sel leaves out. The dword that it selects is read."""
    pairs = Snippets("gfx942", tmp_path, {"sum": text + "\nv_cmp_gt_f32 vcc, v8, v9"})
    for missing, findings in ((undefined, 0), (61 - undefined, 1)):
        defined = np.full(512, ALL, np.uint64)
        defined[missing] = 0
        assert bool(pairs.run("sum", defined=defined, track=True).findings) == bool(findings)


WAVES = 4
BODY = """
{sload} s[4:5], s[0:1], 0x0
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v1, 2, v0
v_xor_b32 v2, 0x100, v1
{sm0}
"""
LDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("own", "{write} v1, v0\n{read} v3, v1\n{ds0}", ()),
    ("exchange", "{write} v1, v0\n{ds0}\n{barrier}\n{read} v3, v2\n{ds0}", ()),
    ("no_barrier", "{write} v1, v0\n{ds0}\n{read} v3, v2\n{ds0}", ("lds-race", "uninitialised-lds")),
    ("no_wait", "{write} v1, v0\n{barrier}\n{read} v3, v2\n{ds0}", ("lds-race",)),
    ("write_after_read", "{write} v1, v0\n{ds0}\n{barrier}\n{read} v3, v2\n{ds0}\n{barrier}\n{write} v1, v0\n{ds0}", ()),
    ("write_after_read_no_barrier", "{write} v1, v0\n{ds0}\n{barrier}\n{read} v3, v2\n{ds0}\n{write} v1, v0\n{ds0}", ("lds-race",)),
    ("write_after_write", "v_lshlrev_b32 v4, 2, v0\nv_and_b32 v4, 0xfc, v4\n{write} v4, v0\n{ds0}", ("lds-race",)),
    ("never_written", "{read} v3, v1\n{ds0}", ("uninitialised-lds",)),
    ("half_written", "ds_{b8} v1, v0\n{ds0}\n{read} v3, v1\n{ds0}", ("uninitialised-lds",)),
    ("read_before_a_barrier", "{write} v1, v0\n{ds0}\n{barrier}\n{read} v3, v2\n{barrier}\n{write} v1, v0\n{ds0}", ()),
    ("two_barriers", "{write} v1, v0\n{ds0}\n{barrier}\n{barrier}\n{read} v3, v2\n{ds0}", ()),
)  # fmt: skip


def lds_kernels(case: TrackedSnippets, folder: Path) -> bytes:
    """All kernels in one code object."""
    fill = case.names | {"b8": "store_b8" if case.arch in WAVE32 else "write_b8"}
    first = "" if case.arch in WAVE32 else "s_mov_b32 m0, -1\n"
    return kernels(case.arch, folder, {name: first + (BODY + text).format(**fill) for name, text, _ in LDS}, lds=2048)


def test_waves_that_share_lds(case: TrackedSnippets, tmp_path: Path) -> None:
    """A barrier with a wait before it orders the accesses of two waves. Every seed finds the same kinds."""
    code = lds_kernels(case, tmp_path)
    arguments, block = struct.pack("<Q", case.address) + bytes(56), (WAVES * case.lanes, 1, 1)
    for name, _, expected in LDS:
        for seed in (0, 7):
            case.device.options(seed=seed)
            observed = case.device.launch(code, name, arguments, block=block)
            case.device.options()
            assert observed["status"] == 0, observed["fault"]
            kinds = {finding["kind"] for finding in observed["findings"]}
            assert kinds <= set(expected), (name, observed["findings"])
            assert bool(kinds) == bool(expected), name
            assert name != "no_barrier" or "lds-race" in kinds


PIECES_BODY = (
    BODY
    + """
v_lshlrev_b32 v4, 4, v0
v_xor_b32 v5, 0x400, v4
v_lshlrev_b32 v6, 1, v1
v_xor_b32 v6, 0x400, v6
v_and_b32 v7, {lane}, v0
v_lshrrev_b32 v20, {shift}, v0
v_lshlrev_b32 v20, 2, v20
v_lshlrev_b32 v21, 4, v7
v_add_nc_u32 v20, v20, v21
v_add_nc_u32 v12, 1, v0
v_add_nc_u32 v16, 1, v7
"""
    + "".join(f"v_mov_b32 v{r + k}, v{r}\n" for r in (12, 16) for k in (1, 2, 3))
)
"""Addresses: v4 and v5 of 16 bytes, own and of another wave; v6 of 8 bytes of another wave; v20 word k of piece l in lane l of
wave k; v21 piece l. Values: v0 and v[12:15] of the thread, v[16:19] of the lane."""

OWN, OWN_AGAIN = "{write16} v4, v[12:15]\n{ds0}\n", "v_add_nc_u32 v12, 5, v12\n{write16} v4, v[12:15]\n{ds0}\n"
OTHER, WORD = "{read16} v[8:11], v5\n{ds0}\n", "{write} v4, v0 offset:8\n{ds0}\n"
PIECES: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("read", OWN + "{barrier}\n" + OTHER, (), ""),
    ("read_without_barrier", OWN + OTHER, ("lds-race", "uninitialised-lds"), ""),
    ("read_without_wait", "{write16} v4, v[12:15]\n{barrier}\n" + OTHER, ("lds-race",), ""),
    (
        "read_where_one_wave_has_not_waited",
        "{write16} v4, v[12:15]\nv_readfirstlane_b32 s6, v0\ns_lshr_b32 s6, s6, {shift}\ns_cmp_eq_u32 s6, 1\n"
        "s_cbranch_scc1 goes_on\n{ds0}\ngoes_on:\n{barrier}\n" + OTHER,
        ("lds-race",), "{read16}: .*; wave 1 wrote it",
    ),
    ("halves_read_without_wait", "{write16} v4, v[12:15]\n{barrier}\n{read8} v[8:9], v6\n{ds0}", ("lds-race",), ""),
    ("written_after_a_read", OWN + "{barrier}\n" + OTHER + OWN_AGAIN, ("lds-race",), "read it with no barrier between"),
    ("written_after_a_read_and_a_barrier", OWN + "{barrier}\n" + OTHER + "{barrier}\n" + OWN_AGAIN, (), ""),
    ("written_after_a_word_was_read", OWN + "{barrier}\n{read} v8, v5 offset:4\n{ds0}\n" + OWN_AGAIN, ("lds-race",), "read it with no barrier between"),
    ("a_word_written_after_a_read", OWN + "{barrier}\n" + OTHER + WORD, ("lds-race",), "{write}: .*read it with no barrier between"),
    ("a_word_written_before_a_read", OWN + "{barrier}\n" + WORD + OTHER, ("lds-race",), "{read16}: .* wrote it"),
    ("a_word_written_before_a_read_and_a_barrier", OWN + WORD + "{barrier}\n" + OTHER, (), ""),
    ("a_word_written_before_a_write", OWN + "{barrier}\n" + WORD + "{write16} v5, v[12:15]\n{ds0}", ("lds-race",), "{write16}: .* wrote it"),
    ("written_alike", "{write16} v21, v[16:19]\n{ds0}\n{read16} v[8:11], v21\n{ds0}", (), ""),
    ("written_differently", "{write16} v21, v[12:15]\n{ds0}", ("lds-race",), ""),
    ("a_word_never_written", "{write} v4, v0\n" + WORD + "{write} v4, v0 offset:4\n{ds0}\n{read16} v[8:11], v4\n{ds0}", ("uninitialised-lds",), "{read16}: the LDS word at 12 is read in lane 0,"),
    ("words_apart_never_written", "{read} v8, v4 offset:4\n{ds0}", ("uninitialised-lds",), "{read}: the LDS word at 4 is read in lane 0,"),
    ("pairs_apart_half_written", "{write} v4, v0\n{ds0}\n{read8} v[8:9], v4\n{ds0}", ("uninitialised-lds",), "{read8}: the LDS word at 4 is read in lane 0,"),
    ("words_apart_read_without_wait", "{write16} v4, v[12:15]\n{barrier}\n{read} v8, v5\n{ds0}", ("lds-race",), "{read}: .* wrote it"),
    (
        "words_of_several_waves_written_again",
        "{write} v20, v16\n{ds0}\n{barrier}\n{write16} v21, v[16:19]\n{barrier}\n{read16} v[8:11], v21\n{ds0}",
        ("lds-race",), r"{read16}: .* wrote it .*\({six} times\)",
    ),
)  # fmt: skip


def test_pieces_of_16_bytes_and_their_words(case: TrackedSnippets, tmp_path: Path) -> None:
    """Words that are accessed by themselves count, whether the piece they lie in is accessed as a whole before or after."""
    rdna = case.arch in WAVE32
    fill = case.names | {
        "read16": "ds_load_b128" if rdna else "ds_read_b128", "read8": "ds_load_b64" if rdna else "ds_read_b64",
        "write16": "ds_store_b128" if rdna else "ds_write_b128", "lane": case.lanes - 1, "shift": 5 if rdna else 6,
        "six": 6 * case.lanes,  # words of a lane that a wave wrote again after the one that reads them, in all waves
    }  # fmt: skip
    body = PIECES_BODY + ("" if rdna else "s_mov_b32 m0, -1\n")
    texts = {name: (body + text).format(**fill) for name, text, _, _ in PIECES}
    if not rdna:
        texts = {name: text.replace("v_add_nc_u32", "v_add_u32") for name, text in texts.items()}
    code = kernels(case.arch, tmp_path, texts, lds=4096)
    arguments, block = struct.pack("<Q", case.address) + bytes(56), (WAVES * case.lanes, 1, 1)
    case.device.options()  # waves run in the order of their numbers
    for name, _, expected, phrase in PIECES:
        observed = case.device.launch(code, name, arguments, block=block)
        assert observed["status"] == 0, observed["fault"]
        kinds = {finding["kind"] for finding in observed["findings"]}
        assert kinds <= set(expected), (name, observed["findings"])
        assert bool(kinds) == bool(expected), name
        said = [
            f"{finding['instruction'].split()[0]}: {finding['text']} ({finding['count']} times)"
            for finding in observed["findings"]
        ]
        assert not phrase or any(re.search(phrase.format(**fill), one) for one in said), (name, said)


LOADED = (
    BODY
    + """
s_mov_b32 s8, s4
s_and_b32 s9, s5, 0xffff
s_movk_i32 s10, 0x1000
s_mov_b32 s11, 0x27000
v_and_b32 v4, {mask}, v1
s_mov_b32 m0, 0
buffer_load_dword v4, s[8:11], 0 offen lds
{wait}
{barrier}
v_and_b32 v5, 0xfc, v1
{read} v3, v5
{ds0}
"""
)


BOTH = (
    LOADED[: LOADED.index("{wait}")]
    + "{write} v1, v0 offset:256\n{ds0}\n{vm}\nv_lshlrev_b32 v5, 4, v0\nv_and_b32 v5, 0x1f0, v5\nds_read_b128 v[12:15], v5\n{ds0}"
)


def test_a_read_of_what_was_stored_and_loaded_to_lds(case: TrackedSnippets, tmp_path: Path) -> None:
    """Of the pieces that lanes read, a load to LDS is outstanding for some, and the others are stored."""
    if case.arch in WAVE32:
        pytest.skip("no loads to LDS")
    texts = {
        name: BOTH.replace("{mask}", "0xfc").replace("{vm}", wait).format(**case.names)
        for name, wait in (("waits", "s_waitcnt vmcnt(0)"), ("goes_on", ""))
    }
    code = kernels(case.arch, tmp_path, texts, lds=1024)
    values = case.device.put(np.arange(1024, dtype=np.uint32))
    for name, expected in (("waits", set()), ("goes_on", {"missing-wait"})):
        observed = case.device.launch(code, name, struct.pack("<Q", values) + bytes(56), block=(64, 1, 1))
        assert observed["status"] == 0, observed["fault"]
        assert {finding["kind"] for finding in observed["findings"]} == expected, name


def test_waves_that_load_the_same_to_lds(case: TrackedSnippets, tmp_path: Path) -> None:
    """Waves may load the same values to the same place, each with its own wait; different values are a race."""
    if case.arch in WAVE32:
        pytest.skip("no loads to LDS")
    fills = {"alike": ("0xfc", "{vm0}"), "not_alike": ("0xffc", "{vm0}"), "no_wait": ("0xfc", "")}
    texts = {name: LOADED.replace("{mask}", m).replace("{wait}", w) for name, (m, w) in fills.items()}
    code = kernels(case.arch, tmp_path, {name: text.format(**case.names) for name, text in texts.items()}, lds=1024)
    values = case.device.put(np.arange(1024, dtype=np.uint32))
    for name, expected in (("alike", set()), ("not_alike", {"lds-race"}), ("no_wait", {"lds-race", "missing-wait"})):
        observed = case.device.launch(code, name, struct.pack("<Q", values) + bytes(56), block=(256, 1, 1))
        assert observed["status"] == 0, observed["fault"]
        assert {finding["kind"] for finding in observed["findings"]} == expected, name
