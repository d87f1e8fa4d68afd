"""Build a matrix of CK-Tile kernels for several architectures; compare what ``fmha`` reads in them with LLVM's tools.

    python benchmarks/ck_matrix.py [--jobs 2] [--only ARCH[:FAMILY]] [--ci] [--json FILE] [--markdown FILE]

``ck_matrix.json`` lists the kernels by upstream's names. For each kernel, the script reports wall time and peak memory
of the compile, registers, spills, LDS, occupancy and counts of instructions. Separate code (:func:`notes_of`,
:func:`mnemonics_of`) then reads ``llvm-readelf --notes`` and ``llvm-objdump -d``, and the script compares the figures.
It exits with 1 if a kernel does not build or a figure differs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matrix_parts import Matrix, cost, counts_that_differ, listed_in, run, table

from fmha_cli.backends.ck_tile.inspection import device_code
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from fmha_cli.walk.builds import Built

LIST = Path(__file__).with_name("ck_matrix.json")
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

_COLUMNS = ("build_s", "memory_mib", "vgpr", "agpr", "sgpr", "spills", "lds_bytes", "scratch_bytes", "occupancy",
            "instruction_count", "matrix_instructions", "lds_instructions", "global_instructions",
            "transcendental_instructions", "code_bytes")  # fmt: skip


listed = partial(listed_in, LIST)


def kernels_of(rows: Iterable[Mapping[str, Any]], registry: Registry) -> list[KernelSpec]:
    """The kernels of the rows.

    Raises:
        LookupError: a name that the catalogue does not have.
    """
    backend = registry.backend("ck_tile")
    named: dict[str, dict[str | None, KernelSpec]] = {}
    found = []
    for row in rows:
        if row["arch"] not in named:
            here = backend.kernels(registry.arch(row["arch"]))
            named[row["arch"]] = {backend.upstream_name(kernel): kernel for kernel in here}
        kernel = named[row["arch"]].get(row["kernel"])
        if kernel is None or kernel.family is not Family(row["family"]):
            raise LookupError(f"{row['arch']} has no {row['family']} kernel {row['kernel']}")
        found.append(kernel)
    return found


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
    matrix = sum(n for name, n in counts.items() if name.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")))
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


def row_of(entry: Mapping[str, Any], kernel: KernelSpec, built: Built, registry: Registry) -> dict[str, Any]:
    """All figures of one kernel, and the disagreements."""
    backend = registry.backend("ck_tile")
    row: dict[str, Any] = {
        "arch": kernel.arch,
        "family": kernel.family.value,
        "kernel": entry["kernel"],
        "shows": entry["shows"],
    }
    try:
        if built.value is None:
            raise built.error or AssertionError(built.name)
        findings = backend.inspect(kernel, built.value)
    except FmhaError as error:
        return {**row, "error": error.what, "disagreements": []}
    figures = figures_of(inspect_document(kernel, findings, built.value))
    return {
        **row,
        **figures,
        **cost(built, figures["compile_peak_bytes"]),
        "disagreements": compared(kernel, built.value, findings),
        "error": None,
    }


def markdown(rows: Sequence[Mapping[str, Any]], seconds: float, jobs: int) -> str:
    """The page of results."""
    good = [row for row in rows if not row["error"]]
    compilers = sorted({str(row["compiler"]) for row in good})
    agreed = sum(not row["disagreements"] for row in good)
    now = [row for row in good if not row["cached"]]
    archs, families = sorted({r["arch"] for r in rows}), {r["family"] for r in rows}
    lines = [
        "# CK-Tile build matrix",
        "",
        f"{len(good)} of {len(rows)} kernels of {len(families)} families for {', '.join(archs)} build; "
        f"`inspect` agrees with `llvm-readelf` and `llvm-objdump` on {agreed} of {len(good)}.",
        "",
        f"Registers, spills and counts are those of {'; '.join(compilers)}; another compiler gives others. "
        f"{len(now)} were compiled in this run, in {seconds:.0f} s of wall time with {jobs} compiles at once on "
        f"{usable_cores()} cores, the others before it; {sum(row['build_s'] for row in good):.0f} s is the sum of all compiles. "
        "build s: wall clock of one compile, host and device code; memory: peak of the compiler. A library of several "
        "GPU kernels shows the largest registers and LDS of any, and the sum of its instructions. VGPRs include AGPRs "
        "on gfx90a, gfx942 and gfx950; occupancy is waves per SIMD (`fmha_cli/toolchain/rocm/occupancy.py`).",
        "",
        "Made by `python benchmarks/ck_matrix.py --markdown results/ck_builds.md --json results/data/ck_matrix.json.xz`.",
        "",
    ]
    return "\n".join([*lines, *table(rows, _COLUMNS)]) + "\n"


def main() -> int:
    return run(
        Matrix(
            doc=__doc__,
            listed=listed,
            quick="the four kernels of CI",
            kernels_of=kernels_of,
            row_of=row_of,
            page=markdown,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
