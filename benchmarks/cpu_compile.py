"""Measure how long the CPU kernels of an architecture take to compile, each with the flags that ``fmha`` gives the compiler.

    python benchmarks/cpu_compile.py --arch x86_64_v3 [--only decode] [--rounds 5] [--compiler g++]
    python benchmarks/cpu_compile.py --arch x86_64_v3 --instructions [--only decode]

Seconds are processor time of the compiler and its children, user and system. Compilations of the kernels are
interleaved, so a slow minute of the machine costs each of them one round, and not one of them all rounds. Goals of a
first compile: 1.5 s forward, 3 s backward; the least of the rounds is compared with them.

``--instructions`` counts the instructions of GCC's compiler proper (Valgrind's cachegrind, 15 s a kernel) in place of
seconds. The count repeats to a thousandth on a machine whose seconds do not, and compares two revisions or two flags.
It leaves out the assembler, the linker and the kernel of the operating system, which are a tenth of the seconds.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tabulate import tabulate

from fmha_cli.backends.cpu.building import kernel_flags
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind

FORWARD_S, BACKWARD_S = 1.5, 3.0
COUNTER = "valgrind,--tool=cachegrind,--cache-sim=no,--cachegrind-out-file=/dev/null"
"""The command that starts GCC's compiler proper, for its option ``-wrapper``."""


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


def counted(report: str) -> int:
    """The instructions that cachegrind reports. Raises ValueError: it reports none."""
    if not (found := re.search(r"I\s+refs:\s+([\d,]+)", report)):
        raise ValueError(f"no count of instructions in: {report[-500:]}")
    return int(found[1].replace(",", ""))


def instructions(command: list[str]) -> int:
    """Instructions of GCC's compiler proper. Raises CalledProcessError: it failed; ValueError: no count."""
    done = subprocess.run([*command, "-wrapper", COUNTER], check=True, capture_output=True, text=True)
    return counted(done.stderr)


def times(compiles: dict[str, list[str]], goals: dict[str, float], rounds: int) -> str:
    """The table of seconds of the interleaved commands."""
    found: dict[str, list[float]] = {name: [] for name in compiles}
    for _ in range(rounds):
        for name, command in compiles.items():
            found[name].append(seconds(command))
    rows = [
        [name, min(taken), median(taken), goals[name], "met" if min(taken) <= goals[name] else "NOT MET"]
        for name, taken in found.items()
    ]
    return tabulate(rows, ["kernel", "least, s", "median, s", "goal, s", ""], "github", floatfmt=".2f")


def counts(compiles: dict[str, list[str]]) -> str:
    """The table of instructions."""
    rows = [
        [name, instructions(["-S" if word == "-shared" else word for word in c]) / 1e9] for name, c in compiles.items()
    ]
    return tabulate(rows, ["kernel", "10^9 instructions of the compiler"], "github", floatfmt=".3f")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--only", default="", help="a part of the kernel's label, as the table prints it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions in place of seconds (GCC, Valgrind)"
    )
    given = parser.parse_args(argv)
    arch = load_arch(given.arch)
    kernels = {name: k for k in cpu_kernels(arch) if given.only in (name := label(k))}
    if not kernels or given.rounds < 1:
        parser.error("no kernel has such a label" if not kernels else "--rounds is at least 1")
    kind = ToolchainKind.CLANG if "clang" in given.compiler else ToolchainKind.GCC
    if given.instructions and (kind is not ToolchainKind.GCC or shutil.which("valgrind") is None):
        parser.error("--instructions needs GCC and Valgrind")
    goals = {n: BACKWARD_S if algorithm_of(k).kind is LoopKind.BACKWARD else FORWARD_S for n, k in kernels.items()}
    compiles = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, (name, kernel) in enumerate(kernels.items()):
            source = Path(folder) / f"{n}.cpp"
            source.write_text(emit(kernel), "utf-8")
            compiles[name] = [given.compiler, *kernel_flags(kernel, kind), str(source), "-o", str(Path(folder) / "out")]
        print(counts(compiles) if given.instructions else times(compiles, goals, given.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
