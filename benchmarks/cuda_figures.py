"""Figures of built CUDA kernels for the build matrices, beside those that NVIDIA's own tools read in the same cubins."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from matrix_parts import Matrix, cost, counts_that_differ, table

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.sass import mnemonics_of
from fmha_cli.walk.builds import Built

NVRTC = "NVRTC 13.0"
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

_COLUMNS = ("build_s", "memory_mib", "gpr", "spill_store_bytes", "spill_load_bytes", "shared_bytes", "blocks_per_sm",
            "occupancy", "limited_by", "instruction_count", "matrix_instructions", "shared_instructions",
            "global_instructions", "transcendental_instructions", "code_bytes", "cubin_kib")  # fmt: skip


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


def row_of(
    symbol_of: Callable[[KernelSpec], str],
    entry: Mapping[str, Any],
    kernel: KernelSpec,
    built: Built,
    registry: Registry,
) -> dict[str, Any]:
    """All figures of one kernel, and the disagreements. ``symbol_of`` returns its name in the cubin."""
    row = {key: entry[key] for key in ("arch", "family", "kernel", "shows")} | {"name": kernel.name}
    try:
        if built.value is None:
            raise built.error or AssertionError(built.name)
        findings = registry.backend(kernel.backend).inspect(kernel, built.value)
    except FmhaError as error:
        return {**row, "error": error.what, "why": error.why, "disagreements": []}
    figures = figures_of(inspect_document(kernel, findings, built.value))
    spills = findings["spills"]
    faults, asked = compared(built.value, findings, symbol_of(kernel))
    if not str(figures["compiler"]).startswith(NVRTC):
        faults.append(f"it was compiled by {figures['compiler']}, not by {NVRTC}")
    if findings["unknown_instructions"]:
        faults.append(f"unknown instructions: {findings['unknown_instructions']}")
    if findings["extern_calls"]:
        faults.append(f"it calls {', '.join(findings['extern_calls'])}, which it does not hold")
    return {
        **row,
        **{key: value for key, value in figures.items() if value is not None},
        "spill_store_bytes": spills["store_bytes"],
        "spill_load_bytes": spills["load_bytes"],
        "spills_noted": findings["spills_noted"],
        "shared_static_bytes": findings["shared_static_bytes"],
        "blocks_per_sm": findings["occupancy_limits"]["blocks"],
        "instructions": findings["instructions"],
        "unknown_instructions": findings["unknown_instructions"],
        "cubin_kib": round(findings["cubin_bytes"] / 1024),
        **cost(built, figures["compile_peak_bytes"]),
        "compared_with": asked,
        "disagreements": faults,
        "error": None,
    }


def cuda_matrix(script: str, title: str, symbol_of: Callable[[KernelSpec], str], **rest: Any) -> Matrix:
    """The matrix of a script of ``benchmarks/``.

    Args:
        symbol_of: returns a kernel's name in its cubin.
        rest: ``doc``, ``listed``, ``quick`` and ``kernels_of``.
    """
    return Matrix(
        row_of=partial(row_of, symbol_of),
        page=lambda rows, seconds, jobs: markdown(title, script, environment(), rows, seconds, jobs),
        document=lambda: {"environment": environment()},
        **rest,
    )


@cache
def environment() -> dict[str, Any]:
    """The versions and settings on which the run depends."""
    packages = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
    versions = {}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), None
    )
    return {
        "cores": usable_cores(),
        "cpu": model,
        "driver": any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/dxg")),
        "packages": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "tools": {name: _version_of(path) for name in TOOLS if (path := tool(name)) is not None},
    }


def _version_of(program: str) -> str | None:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    return None if found is None else found[1]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []


def markdown(
    title: str, script: str, where: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], seconds: float, jobs: int
) -> str:
    """The page of results of a script of ``benchmarks/``."""
    good = [row for row in rows if not row["error"]]
    compilers = sorted({str(row["compiler"]) for row in good})
    agreed = sum(not row["disagreements"] for row in good)
    asked = sorted({name for row in good for name in row["compared_with"]})
    now = [row for row in good if not row["cached"]]
    archs, families = dict.fromkeys(r["arch"] for r in rows), {r["family"] for r in rows}
    unknown = sum(sum((row["unknown_instructions"] or {}).values()) for row in good)
    times, memories = [row["build_s"] for row in good], [row["memory_mib"] or 0 for row in good]
    lines = [
        f"# {title}",
        "",
        f"{len(good)} of {len(rows)} kernels of {len(families)} families for {', '.join(archs)} build by "
        f"{'; '.join(compilers)} alone; {_against(asked, agreed, len(good))} {unknown} instructions are unknown to `inspect`.",
        "",
        f"Python {where['python']}, {where['platform']}, {where['cpu']}, {where['cores']} cores, "
        f"{'an NVIDIA driver is loaded' if where['driver'] else 'no NVIDIA driver, no GPU'}; "
        + ", ".join(f"{name} {version}" for name, version in {**where["packages"], **where["tools"]}.items() if version)
        + ".",
        "",
        f"{len(now)} were compiled in this run, in {seconds:.0f} s of wall time with {jobs} compiles at once{'' if len(now) == len(good) else ', the others before it'}; "
        f"{sum(times):.0f} s is the sum of all compiles, the longest took {max(times, default=0):.0f} s and the largest "
        f"{max(memories, default=0)} MiB. build s: wall clock of one compile in a process of its own; memory: its "
        "peak. gpr: registers of a thread. Spills are bytes of one thread, as the assembler counts "
        "them. shared bytes: static and dynamic, without the 1024 that the driver keeps. occupancy: warps of one of the four "
        "schedulers (`fmha_cli/toolchain/cuda/occupancy.py`). Nearly all of a cubin is names of symbols.",
        "",
        f"Made {'in an empty cache ' if len(now) == len(good) else ''}by `python benchmarks/{script}.py --markdown results/{script}.md --json results/data/{script}.json.xz`.",
        "",
    ]
    return "\n".join([*lines, *table(rows, _COLUMNS)]) + "\n"


def _against(asked: Sequence[str], agreed: int, count: int) -> str:
    if not asked:
        return "neither cuobjdump nor nvdisasm was there to compare with."
    return f"`inspect` agrees with `{'` and `'.join(asked)}` on {agreed} of {count}."
