"""What LLVM's tools read in a kernel's code object, and where ``inspect`` says something else."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fmha_cli.backends.ck_tile.inspection import device_code
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from tests.support.referees.cubins import counts_that_differ

READELF = {
    ".vgpr_count": ("registers", "vgpr"),
    ".agpr_count": ("registers", "agpr"),
    ".sgpr_count": ("registers", "sgpr"),
    ".vgpr_spill_count": ("spills", "vgpr"),
    ".sgpr_spill_count": ("spills", "sgpr"),
    ".group_segment_fixed_size": ("lds_bytes",),
    ".private_segment_fixed_size": ("scratch_bytes",),
    ".kernarg_segment_size": ("kernarg_bytes",),
}
"""Member of the metadata -> its name in each of the ``kernels`` of ``inspect``."""
MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")


def compared(kernel: KernelSpec, artifact: Artifact, findings: Mapping[str, Any]) -> list[str]:
    """The disagreements with ``llvm-readelf`` and ``llvm-objdump``; empty if all figures agree.

    Raises:
        FileNotFoundError: one of the two tools is missing.
    """
    readelf, objdump = llvm_tool("llvm-readelf"), llvm_tool("llvm-objdump")
    if readelf is None or objdump is None:
        raise FileNotFoundError("llvm-readelf and llvm-objdump are needed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code.co")
        path.write_bytes(device_code(artifact.path, kernel.arch).data)
        notes, counts = notes_of(readelf, path), mnemonics_of(objdump, path)
    faults = []
    if len(notes) != len(findings["kernels"]):
        faults.append(f"{len(notes)} kernels instead of {len(findings['kernels'])}")
    for said, ours in zip(notes, findings["kernels"], strict=False):
        for member, place in READELF.items():
            value: Any = ours
            for key in place:
                value = value[key]
            if value != said.get(member, 0):
                faults.append(f"{member} is {said.get(member)}, inspect says {value}")
    faults += counts_that_differ(counts, findings["instructions"] or {})
    matrix = sum(n for name, n in counts.items() if name.startswith(MATRIX))
    if matrix != findings["matrix_instructions"]:
        faults.append(f"{matrix} matrix instructions, inspect says {findings['matrix_instructions']}")
    return faults


def notes_of(readelf: Path, path: Path) -> list[dict[str, int]]:
    """The numbers of each kernel in the output of ``llvm-readelf --notes``."""
    text = subprocess.run([str(readelf), "--notes", str(path)], capture_output=True, text=True, check=True).stdout
    section = re.split(r"\n(?=\w)", text.split("amdhsa.kernels:\n")[1])[0]
    found = re.split(r"^  - ", section, flags=re.MULTILINE)[1:]
    numbers = re.compile(r"^(?:    )?(\.\w+): +(\d+)$", re.MULTILINE)
    return [{name: int(value) for name, value in numbers.findall(part)} for part in found]


def mnemonics_of(objdump: Path, path: Path) -> Counter[str]:
    """The mnemonics that ``llvm-objdump -d`` prints below the label of a function, without the padding."""
    command = [str(objdump), "-d", "--no-show-raw-insn", "--no-leading-addr", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts: Counter[str] = Counter()
    for body in re.split(r"^(?:[0-9a-f]+ )?<.*>:$", text, flags=re.MULTILINE)[1:]:
        lines = [line.split("//")[0].strip() for line in body.splitlines()]
        lines = [line for line in lines if line and line != "..."]
        while lines and lines[-1].split()[0] in ("s_nop", "s_code_end", "v_illegal"):
            lines.pop()
        counts.update(half.split()[0] for line in lines for half in line.split(" :: "))
    return counts
