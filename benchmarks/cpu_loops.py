"""Compare the machine code of the CPU kernels of this checkout with that of another revision, where the time goes: in loops.

    python benchmarks/cpu_loops.py bca9458 --arch x86_64_v4_bf16 [--only prefill]

It says how much a result of the other revision is worth today on a processor that is not at hand. Both texts are compiled by the same
compiler, each with the flags of its own revision. An innermost loop counts as the same if the vector instructions in it are, mnemonic
by mnemonic; which registers they name does not matter. Needs git, a compiler for the architecture and objdump.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from revisions import ROOT, environment_of, require_from, tree_of
from tabulate import tabulate

from fmha_cli.backends.cpu.inspection import Loop, innermost_loops

PRODUCTS = 8
"""Multiply-adds of a loop that is compared: fewer are in loops that run once for a row."""

_EMIT = """
import json, sys
import fmha_cli
from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.kernels import cpu_kernels
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
arch, gcc = load_arch(sys.argv[1]), ToolchainKind.GCC
names, flags = {}, {}
for k in cpu_kernels(arch):
    s = k.signature
    name = f"{k.algorithm.kind.value} {s.dtype.value} {s.dtype_out.value} {s.kv_dtype.value}"
    names[name] = emit(k)
    # Older trees have the same flags for all kernels of an architecture.
    flags[name] = building.kernel_flags(k, gcc) if hasattr(building, "kernel_flags") else building.compile_flags(arch, gcc)
json.dump({"from": fmha_cli.__file__, "flags": flags, "texts": names}, sys.stdout)
"""
"""Executed in each of the two trees, which have their own generator."""

Shape = tuple[tuple[str, int], ...]
"""How often each vector instruction is in a loop."""


def texts(tree: Path, arch: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The flags and the source of each of a tree's kernels. Raises CalledProcessError: its generator has another form."""
    command = [sys.executable, "-c", _EMIT, arch]
    done = subprocess.run(command, cwd=tree, env=environment_of(tree), stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    require_from(tree, found["from"])
    return found["flags"], found["texts"]


def shapes(text: str, flags: list[str], folder: Path) -> Counter[Shape]:
    """The vector instructions of each innermost loop with products, and how many loops have them."""
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(text, "utf-8")
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True, check=True
    ).stdout
    return Counter(shape for loop in innermost_loops(listing) if products(shape := shape_of(loop)) >= PRODUCTS)


def shape_of(loop: Loop) -> Shape:
    return tuple(sorted((name, n) for name, n in loop.counts.items() if name.startswith(("v", "prefetch", "tdp"))))


def products(shape: Shape) -> int:
    """Multiply-adds and dot products of a loop."""
    return sum(n for name, n in shape if name.startswith(("vfm", "vfnm", "vdpbf16", "tdp")))


def listed(loops: Counter[Shape]) -> str:
    """The size of each, the largest first: multiply-adds of vector instructions."""
    ordered = sorted(loops.elements(), key=products, reverse=True)
    return ", ".join(f"{products(one)} of {sum(n for _, n in one)}" for one in ordered) or "none"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--only", default="", help="a part of the kernel's name, as the table prints it")
    parser.add_argument("--sizes", action="store_true", help="list the loops that differ, below the table")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary, tree_of(given.revision) as tree:
        folder = Path(temporary)
        before, after = texts(tree, given.arch), texts(ROOT, given.arch)
        rows, sizes = [], []
        for name in sorted(before[1].keys() & after[1].keys()):
            if given.only not in name:
                continue
            old, new = (shapes(every[name], flags[name], folder) for flags, every in (before, after))
            if old or new:
                rows.append([name, old.total(), new.total(), (old & new).total()])
                sizes.append(f"{name}: {listed(old - new)} -> {listed(new - old)}")
    print(f"innermost loops with at least {PRODUCTS} multiply-adds")
    print(tabulate(rows, ["kernel", given.revision, "now", "the same"], "github"))
    if given.sizes:
        print("those that differ, multiply-adds of vector instructions:", *sizes, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
