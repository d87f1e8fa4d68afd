"""``_cuda_sass.json`` holds every opcode that the disassembler decodes, under the disassembler's own name.

``nvdisasm --binary`` refuses an instruction whose control bits are undefined, and its message names the class of the
instruction, such as ``yield_inst_``. The first word of the class is the mnemonic. So each of the 4,096 opcodes is asked for
with undefined control bits. Some opcodes exist only with certain other bits; random bits find them.
"""

from __future__ import annotations

import random
import re
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from fmha_cli.toolchain.cuda.sass import mnemonics_of
from tests.support.builds.nvrtc_tiny import nvdisasm

ARCHS = {75: "SM75", 80: "SM80", 86: "SM86", 89: "SM89", 90: "SM90a", 100: "SM100a", 103: "SM103a", 120: "SM120a"}
QUICK = (90, 120)
DRAWS = 12
NO_COMPUTE = frozenset({
    "al2p", "ald", "ast", "csmtest", "footprint", "ide", "ipa", "isberd", "isbewr", "ldtram", "out", "pixld", "rpcmov", "rtt",
    "setctaid", "suatom", "suld", "suquery", "sured", "sust", "tex", "tld", "tld4", "tmml", "ttucctl", "ttugo", "ttuld",
    "ttumacrofuse", "ttuopen", "ttust", "txd", "txq",
})  # fmt: skip
"""First words of classes for textures, surfaces, rasterisation and ray tracing, which no kernel here contains."""
SHARED = {
    "imul": "IMAD", "iadd": "IADD3", "fhadd": "FADD", "fhfma": "FFMA", "ufhadd": "UFADD", "ufhfma": "UFFMA",
    "utchmma": "UTCMMA", "utcqmma": "UTCMMA", "utcomma": "UTCMMA",
}  # fmt: skip
"""First words whose opcode is counted under the name of another instruction."""
NOT_FIRST = {"mov_indexedRF": None, "ucgabar_arrive": "UCGABAR_ARV", "ucgabar_wait": "UCGABAR_WAIT",
             "ucgabar_set": None, "ucgabar_get": None}  # fmt: skip
"""Classes whose mnemonic is not their first word alone; ``None``: it was never seen."""
_CLASS = re.compile(r"Opclass '([^']+)'.* at address (0x[0-9a-f]+)")
PREDICATE_TRUE, UNDEFINED = 7 << 12, 0x000FE00000000000
NARROWING = 0x202000


def patterns(draws: int) -> list[tuple[int, int]]:
    """Low and high words around an opcode: none of the other bits, those of a conversion to fewer bits, then a few random ones."""
    source = random.Random(1)
    return [(0, 0), (0, NARROWING)] + [
        (
            sum(1 << bit for bit in source.sample(range(16, 64), source.randint(0, 4))),
            sum(1 << bit for bit in source.sample(range(41), source.randint(1, 4))),
        )
        for _ in range(draws)
    ]


def classes_of(target: str, folder: Path, draws: int) -> dict[int, set[str]]:
    """Opcode -> the classes that the disassembler names."""
    found: dict[int, set[str]] = {}
    path = folder / "all.bin"
    for low, high in patterns(draws):
        words = (struct.pack("<QQ", code | PREDICATE_TRUE | low, UNDEFINED | high) for code in range(4096))
        path.write_bytes(b"".join(words))
        said = subprocess.run(
            [nvdisasm(), "--binary", target, path], capture_output=True, text=True, check=False
        ).stderr
        for match in _CLASS.finditer(said):
            found.setdefault(int(match[2], 16) // 16, set()).add(match[1])
    return found


def wrong(classes: Mapping[int, set[str]], names: Mapping[int, str]) -> dict[str, tuple[str, str | None]]:
    """Opcode -> (class, our name) where they disagree."""
    found = {}
    for code, group in classes.items():
        for name in group:
            first = name.split("_")[0]
            special = next((mine for start, mine in NOT_FIRST.items() if name.startswith(start)), first.upper())
            ours = names.get(code)
            if first not in NO_COMPUTE and special is not None and ours not in (special, SHARED.get(first, special)):
                found[f"{code:#x}"] = (name, ours)
    return found


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("capability", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in ARCHS])
def test_the_disassembler_names_every_opcode_as_the_table_does(capability: int, tmp_path: Path) -> None:
    classes = classes_of(ARCHS[capability], tmp_path, 1 if capability in QUICK else DRAWS)
    assert len(classes) > 200
    assert wrong(classes, mnemonics_of(capability)) == {}


def test_planted_an_opcode_is_missing_and_another_has_a_wrong_name() -> None:
    classes = {0x946: {"yield_inst_"}, 0xC0A: {"fset_simple__RUR"}, 0x224: {"imul_lo_xor__RRR_RRR"}, 0x361: {"tex_"}}
    assert wrong(classes, {0x946: "YIELD", 0xC0A: "FSET", 0x224: "IMAD"}) == {}
    assert wrong(classes, {0x946: "NOP", 0x224: "IMAD"}) == {
        "0x946": ("yield_inst_", "NOP"),
        "0xc0a": ("fset_simple__RUR", None),
    }
