"""Builds the programs that run an upstream's host code: from sources of which a digest is the key."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SHARED = ("record.cpp", "tensor.cpp")
"""Units of every program: what is recorded of a call, and PyTorch's tensors without values."""


def key_of(compiler: str, tree: Path, folders: Iterable[Path]) -> str:
    """The digest of the compiler's version, the place of the fetched sources, and all files of the folders."""
    key = hashlib.sha256(subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=600).stdout)
    key.update(str(tree).encode())
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.suffix != ".pyc" and p.is_file()):
            key.update(path.read_bytes())
    return key.hexdigest()


def linked(compiler: str, units: Sequence[tuple[Path, Sequence[str]]], work: Path) -> Path:
    """The program of some units, each with its options, compiled side by side."""

    def compile_one(unit: tuple[Path, Sequence[str]]) -> str:
        source, options = unit
        out = str(work / f"{source.name}.o")
        run([compiler, *options, "-w", "-c", str(source), "-o", out])
        return out

    with ThreadPoolExecutor(max_workers=min(4, len(os.sched_getaffinity(0)))) as pool:
        objects = list(pool.map(compile_one, units))
    # The names of kernels are looked up through the dynamic symbols.
    run([compiler, "-rdynamic", *objects, "-ldl", "-o", str(work / "host")])
    return work / "host"


def run(command: Sequence[str]) -> None:
    """Run a compiler; its message is the assertion's."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-4000:]}"
