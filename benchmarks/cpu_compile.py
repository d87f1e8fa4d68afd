"""Measure how long the CPU kernels of an architecture take to compile, each with the flags that ``fmha`` gives the compiler.

    python benchmarks/cpu_compile.py --arch x86_64_v3 [--only decode] [--rounds 5] [--compiler g++]

Seconds are processor time of the compiler and its children, user and system. Kernels are compiled in turns, so that a minute in
which the machine is slow costs each of them a round and not one of them all. Goals of a first compile: 1.5 s forward, 3 s backward;
the least of the rounds is compared with them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tabulate import tabulate

from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import Kind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind

FORWARD_S, BACKWARD_S = 1.5, 3.0


def label(kernel: KernelSpec) -> str:
    """Kind, dtype of the queries and, where they differ, of O and of the cache."""
    given = kernel.signature
    words = [algorithm_of(kernel).kind.value, given.dtype.value]
    words += [f"to {given.dtype_out}"] if given.dtype_out is not given.dtype else []
    words += ["8-bit cache"] if given.kv_dtype.value == "8-bit" else []
    return " ".join(words)


def seconds(command: list[str]) -> float:
    """Processor seconds of a command. Raises CalledProcessError: it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--only", default="", help="a part of the kernel's label, as the table prints it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compiler", default="g++")
    given = parser.parse_args(argv)
    arch = load_arch(given.arch)
    kernels = {name: k for k in cpu_kernels(arch) if given.only in (name := label(k))}
    if not kernels or given.rounds < 1:
        parser.error("no kernel has such a label" if not kernels else "--rounds is at least 1")
    flags = compile_flags(arch, ToolchainKind.CLANG if "clang" in given.compiler else ToolchainKind.GCC)
    found: dict[str, list[float]] = {name: [] for name in kernels}
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        for _ in range(given.rounds):
            for name, kernel in kernels.items():
                source.write_text(emit(kernel), "utf-8")
                found[name].append(seconds([given.compiler, *flags, str(source), "-o", str(library)]))
    rows = []
    for name, taken in found.items():
        goal = BACKWARD_S if algorithm_of(kernels[name]).kind is Kind.BACKWARD else FORWARD_S
        rows.append([name, min(taken), median(taken), goal, "met" if min(taken) <= goal else "NOT MET"])
    print(tabulate(rows, ["kernel", "least, s", "median, s", "goal, s", ""], "github", floatfmt=".2f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
