"""Golden texts of an emitter of CUDA translation units, and what every such text must have.

A golden file holds the parts of a text that are specific to its kernel. The digest of the whole text pins the tables of
the parameter block.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.kernel import KernelSpec
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden"
DIGESTS = "digests.json"
TABLES = ("FMHA_FIELD(", "_abi_names", "_abi_table")
"""Words of the lines of the tables."""


def most_features(named: Iterable[tuple[str, KernelSpec]], without: tuple[str, ...]) -> dict[str, KernelSpec]:
    """File name -> kernel: of all with a name the one with the most features, so the texts show them.

    Args:
        named: kernels, each with the name of its file.
        without: values of a field that are not a feature, other than its default.
    """
    out: dict[str, tuple[int, KernelSpec]] = {}
    for name, kernel in named:
        parts: tuple[Any, ...] = (kernel.signature, kernel.algorithm)
        rank = sum(getattr(one, f) not in (usual, *without) for one in parts for f, usual in _defaults(type(one)))
        best = out.get(name)
        if best is None or rank > best[0] or (rank == best[0] and kernel.digest > best[1].digest):
            out[name] = rank, kernel
    return {name: kernel for name, (_, kernel) in out.items()}


@cache
def _defaults(part: type[Any]) -> tuple[tuple[str, object], ...]:
    """The fields of a class. Reading them once for each class keeps 53,000 kernels cheap."""
    return tuple((f.name, f.default) for f in fields(part))


@dataclass(frozen=True)
class Golden:
    """The golden texts of one emitter.

    Attributes:
        folder: of ``tests/golden``.
        emit: the emitter.
        block_of: returns a kernel's parameter block.
        symbol_of: returns a kernel's name in its text.
        kernels: file name -> kernel.
        update: the command that rewrites the files.
    """

    folder: str
    emit: Callable[[KernelSpec], str]
    block_of: Callable[[KernelSpec], type]
    symbol_of: Callable[[KernelSpec], str]
    kernels: Mapping[str, KernelSpec]
    update: str

    @property
    def path(self) -> Path:
        return GOLDEN / self.folder

    def own_text(self, kernel: KernelSpec) -> str:
        """The text without the tables of the parameter block."""
        lines = self.emit(kernel).splitlines()
        return "\n".join(line for line in lines if not any(word in line for word in TABLES)) + "\n"

    def digests(self) -> dict[str, str]:
        """File name -> sha256 of the whole text."""
        return {name: hashlib.sha256(self.emit(kernel).encode()).hexdigest() for name, kernel in self.kernels.items()}

    def write(self) -> None:
        """Rewrite the files."""
        self.path.mkdir(exist_ok=True)
        for stale in self.path.glob("*.cu"):
            stale.unlink()
        for name, kernel in self.kernels.items():
            (self.path / name).write_text(self.own_text(kernel), "utf-8")
        (self.path / DIGESTS).write_text(json.dumps(self.digests(), indent=1, sort_keys=True) + "\n", "utf-8")

    def are_the_reviewed_ones(self) -> None:
        wanted = f"a wanted change? run {self.update}"
        assert {path.name for path in self.path.glob("*.cu")} == self.kernels.keys(), wanted
        for name, kernel in self.kernels.items():
            assert self.own_text(kernel) == (self.path / name).read_text("utf-8"), f"{name}: {wanted}"
        assert self.digests() == json.loads((self.path / DIGESTS).read_text("utf-8")), wanted

    def are_plain(self, headers: Iterable[str]) -> None:
        """Plain ASCII with one kernel, by its name, which includes these headers at most."""
        for name, kernel in self.kernels.items():
            text, own = self.emit(kernel), self.symbol_of(kernel)
            assert text.isascii(), name
            assert text.endswith("};\n"), name
            assert "\t" not in text, name
            assert re.findall(r'extern "C" __global__ void\s(?:__launch_bounds__\([^)]*\)\s)?(\w+)\(', text) == [own], (
                name
            )
            assert set(re.findall(r"#include <?([^\s>]+)", text)) <= set(headers), name
            assert set(re.findall(rf"{own}_\w+", text)) == {
                f"{own}_{part}" for part in ("abi_table", "abi_names", "facts")
            }

    def export_every_field(self) -> None:
        for name, kernel in self.kernels.items():
            text, fields = self.emit(kernel), [field for field, _ in c_fields(self.block_of(kernel))]
            assert re.findall(r"^  FMHA_FIELD\((\w+)\)", text, re.MULTILINE) == fields, name
            assert f'{self.symbol_of(kernel)}_abi_names[] = "{" ".join(fields)}";' in text, name
            assert f"{{1, sizeof(Params), {len(fields)}," in text, name

    def leave_the_architecture_to_flags(self) -> None:
        """It is in the kernel's name alone."""
        kernel = next(iter(self.kernels.values()))
        other = replace(kernel, arch="sm_90a")
        assert self.emit(kernel).partition("\n")[2] == self.emit(other).partition("\n")[2]
        assert self.emit(kernel) != self.emit(other)

    def depend_on_the_kernel_alone(self, module: str, folder: Path = ROOT) -> None:
        """Another process with another order of sets writes the same; ``module``, below ``folder``, has this as its ``GOLDEN``."""
        code = f"from {module} import GOLDEN; print(sorted(GOLDEN.digests().items()))"
        for seed in ("1", "2"):
            found = subprocess.run(
                [sys.executable, "-c", code],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{folder}:{ROOT}", "PATH": ""},
                cwd=self.path,
                capture_output=True,
                text=True,
                check=True,
            )
            assert found.stdout.strip() == str(sorted(self.digests().items()))


def texts_differ(emit: Callable[[KernelSpec], str], kernels: Iterable[KernelSpec], name: str = r"$^") -> int:
    """The number of kernels, whose texts all differ even without the names (a pattern): no field of a kernel is left to
    run time by mistake."""
    listed = list(kernels)
    assert len({re.sub(name, "", emit(kernel).partition("\n")[2]) for kernel in listed}) == len(listed)
    return len(listed)


def are_small_own_texts(folder: Path, most: int) -> None:
    """The files of a folder of shims have at most so many lines, and no third party's text."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    for path in files:
        text = path.read_text("ascii")
        assert text.startswith("// "), path
        assert "#pragma once\n" in text, path
        assert len(text.splitlines()) <= most, path
        assert "Copyright" not in text, path
