"""What NVIDIA's own tools read in a cubin, and where ``inspect`` says something else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.sass import mnemonics_of

TOOLS = ("cuobjdump", "nvdisasm")
"""NVIDIA's tools that the figures are compared with, if they are installed."""
ONE_NAME = {
    "IMUL": "IMAD",
    "FHADD": "FADD",
    "FHFMA": "FFMA",
    "UFHADD": "UFADD",
    "UFHFMA": "UFFMA",
    "IADD": "IADD3",
    "UTCHMMA": "UTCMMA",
}
"""Mnemonics that ``inspect`` counts under the name of another instruction with the same opcode, where an architecture has
no opcode for them alone."""
BEFORE_HOPPER = ("sm_75", "sm_80", "sm_86", "sm_89")


def tool(name: str) -> str | None:
    """One of NVIDIA's tools, on the path or in its package."""
    found = shutil.which(name)
    if found is None:
        try:
            files = metadata.files(f"nvidia-cuda-{name}") or []
        except metadata.PackageNotFoundError:
            return None
        found = next((str(file.locate()) for file in files if file.name == name), None)
        if found is not None and not os.access(found, os.X_OK):
            Path(found).chmod(0o755)  # the wheels do not mark it as executable
    return found


def compared(artifact: Artifact, findings: Mapping[str, Any], symbol: str) -> tuple[list[str], list[str]]:
    """The disagreements with ``cuobjdump`` and ``nvdisasm``, and the tools that were used."""
    faults, asked = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(artifact.path.read_bytes())
        if (cuobjdump := tool("cuobjdump")) is not None:
            asked.append("cuobjdump")
            faults += _usage_faults(usage_of(cuobjdump, path, symbol), findings)
        if (nvdisasm := tool("nvdisasm")) is not None:
            asked.append("nvdisasm")
            known = set(mnemonics_of(Cubin(artifact.path.read_bytes()).capability).values())
            counts = mnemonics_in(nvdisasm, path, symbol, known)
            faults += counts_that_differ(counts, findings["instructions"] or {})
            matrix = sum(n for name, n in counts.items() if name.endswith("MMA"))
            if matrix != findings["matrix_instructions"]:
                faults.append(f"{matrix} matrix instructions, inspect says {findings['matrix_instructions']}")
    return faults, asked


def counts_that_differ(counts: Mapping[str, int], ours: Mapping[str, int]) -> list[str]:
    """The mnemonics whose counts in a disassembler and in ``inspect`` differ."""
    return [
        f"{counts.get(name, 0)} {name}, inspect says {ours.get(name, 0)}"
        for name in sorted({*ours, *counts})
        if ours.get(name, 0) != counts.get(name, 0)
    ]


def usage_of(cuobjdump: str, path: Path, symbol: str) -> dict[str, int]:
    """The numbers of the kernel in the output of ``cuobjdump -res-usage``."""
    text = subprocess.run([cuobjdump, "-res-usage", str(path)], capture_output=True, text=True, check=True).stdout
    line = text.split(f"Function {symbol}:\n")[1].splitlines()[0]
    return {name: int(value) for name, value in re.findall(r"([A-Z]+(?:\[\d\])?):(\d+)", line)}


def _usage_faults(said: Mapping[str, int], findings: Mapping[str, Any]) -> list[str]:
    shared = findings["shared_static_bytes"]
    if said["SHARED"] and findings["target"] not in BEFORE_HOPPER:
        shared += 1024  # the driver's own share, included since Hopper if a kernel has any shared memory
    ours = {"REG": findings["registers"]["gpr"], "STACK": findings["scratch_bytes"], "SHARED": shared}
    return [f"{name} is {said[name]}, inspect says {value}" for name, value in ours.items() if said[name] != value]


def mnemonics_in(nvdisasm: str, path: Path, symbol: str, known: Collection[str]) -> Counter[str]:
    """The first words of the mnemonics in ``nvdisasm -json``'s output for the kernel, without its final padding.

    Args:
        known: the mnemonics of the kernel's architecture, which keep their names.
    """
    text = subprocess.run([nvdisasm, "-json", str(path)], capture_output=True, text=True, check=True).stdout
    function = next(entry for entry in json.loads(text)[1] if entry["function-name"] == symbol)
    words = [row["opcode"].split(".")[0] for row in function["sass-instructions"]]
    while words and words[-1] == "NOP":
        words.pop()
    return Counter(word if word in known else ONE_NAME.get(word, word) for word in words)
