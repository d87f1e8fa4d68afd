"""The innermost loops of AArch64 kernels in the disassembly, against what their register tiles need at least. No claim about speed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.backends.cpu.building import kernel_flags
from fmha_cli.backends.cpu.inspection import Loop, disassembler, innermost_loops
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm
from fmha_cli.codegen.cpu.elements import WORDS
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import cross_search
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
from tests.support.generators.cpu.cases import kernel_of

pytestmark = pytest.mark.slow
PRODUCTS = ("fmla", "bfmmla")
MOST = 1.35
"""The most instructions of a loop, as a share of the least: pointers, the counter and the jump come on top."""

ON_THE_STACK = {(ToolchainKind.CLANG, ("aarch64_bf16", "bf16", "backward", "dV, dK")): 2}
"""Vector moves to the stack in a loop, where there are any; by clang 22.1."""

Loops = Callable[[KernelSpec], tuple[Loop, ...]]


def least(vectors: int, rows: int, words: int) -> int:
    """Instructions that a tile of products needs: the products, a load for 4 words of a row, one for two vectors."""
    return vectors * rows * words + -(-rows * words // WORDS) + -(-vectors * words // 2)


def least_of_blocks(vectors: int, rows: int, packed: bool) -> int:
    """The same for products of blocks: two steps of rows that lie in memory, with one zip for each block, or one packed step."""
    steps, blocks = (1, rows // 2) if packed else (2, rows)
    loads = -(-blocks // 2) if packed else rows
    return steps * rows // 2 * 2 * vectors + loads + (0 if packed else blocks) + steps * vectors


TILES = {
    ("aarch64", "fp32", "prefill", "scores"): ("fmla", 64, least(4, 4, 4)),
    ("aarch64", "fp32", "prefill", "values"): ("fmla", 16, least(4, 4, 1)),
    ("aarch64", "fp32", "backward", "scores"): ("fmla", 64, least(4, 4, 4)),
    ("aarch64", "fp32", "backward", "dV, dK"): ("fmla", 64, least(4, 4, 4)),
    ("aarch64", "fp32", "backward", "dQ"): ("fmla", 16, least(4, 4, 1)),
    ("aarch64_bf16", "bf16", "prefill", "scores"): ("bfmmla", 32, least_of_blocks(4, 4, packed=False)),
    ("aarch64_bf16", "bf16", "prefill", "values"): ("bfmmla", 16, least_of_blocks(4, 4, packed=True)),
    ("aarch64_bf16", "bf16", "backward", "scores"): ("bfmmla", 32, least_of_blocks(4, 4, packed=False)),
    ("aarch64_bf16", "bf16", "backward", "dV, dK"): ("bfmmla", 32, least_of_blocks(4, 4, packed=False)),
    ("aarch64_bf16", "bf16", "backward", "dQ"): (
        "bfmmla",
        16,
        least_of_blocks(4, 4, packed=True) + 1,
    ),  # blocks lie apart
}
"""Architecture, dtype, kind and product -> the instruction, how many there are in its widest tile, the least instructions."""


@pytest.fixture(scope="module", params=[pytest.param(ToolchainKind.GCC, marks=pytest.mark.ci), ToolchainKind.CLANG])
def compiled(request: pytest.FixtureRequest, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Loops:
    """The loops of a kernel by one compiler; skips the test where that is not here."""
    search = cross_search("aarch64", Cache(shared_cache).layout)
    wanted = [c for c in search.candidates if ("--target=aarch64-linux-gnu" in c.argv0) == (request.param == "clang")]
    tools = next(filter(None, (search.examine(c).toolchain for c in wanted)), None)
    program = disassembler("aarch64")
    if tools is None or tools.kind is not request.param or program is None:
        pytest.skip(f"no {request.param} for AArch64, or no disassembler")

    @cache
    def loops(kernel: KernelSpec) -> tuple[Loop, ...]:
        folder = tmp_path_factory.mktemp("loops")
        (folder / "k.cpp").write_text(emit(kernel))
        flags = kernel_flags(kernel, tools.kind)
        subprocess.run([*tools.argv0, *flags, "k.cpp", "-o", "k.so"], cwd=folder, check=True)
        command = [program, "-d", "--no-show-raw-insn", "k.so"]
        text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        return innermost_loops(text)

    return loops


def products_in(loop: Loop) -> int:
    return sum(loop.counts[name] for name in PRODUCTS)


def tile_loop(loops: tuple[Loop, ...], kind: str, product: str, many: int) -> Loop:
    """The loop of a product's widest tile: the shortest with so many products in its function."""
    inside = {"scores": "QK_FULL" if kind == "prefill" else "products", "dV, dK": "3add", "dQ": "3add"}.get(product, "")
    found = [loop for loop in loops if products_in(loop) == many and inside in loop.symbol]
    return min((loop for loop in found if inside or "QK_FULL" not in loop.symbol), key=lambda loop: len(loop.body))


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.parametrize(("arch", "dtype", "kind", "product"), TILES)
def test_instructions_of_the_innermost_loops(
    compiled: Loops, request: pytest.FixtureRequest, arch: str, dtype: str, kind: str, product: str
) -> None:
    instruction, many, fewest = TILES[arch, dtype, kind, product]
    loop = tile_loop(compiled(kernel_of(arch, dtype, kind)), kind, product, many)
    compiler = request.node.callspec.params["compiled"]
    assert loop.stack_moves == ON_THE_STACK.get((compiler, (arch, dtype, kind, product)), 0)
    assert fewest <= len(loop.body) <= MOST * fewest
    assert set(PRODUCTS) & set(loop.counts) == {instruction}
    assert not {"dup", "ld1r"} & set(loop.counts), "a word is broadcast by an instruction of its own"


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
def test_too_many_accumulators_are_seen(compiled: Loops) -> None:
    """A planted spill: 32 accumulators, 8 rows of words and 4 vectors do not fit 32 registers."""
    kernel = kernel_of("aarch64", "fp32", "prefill")
    algorithm = algorithm_of(kernel)
    assert isinstance(algorithm, CpuAlgorithm)
    wide = replace(kernel, algorithm=replace(algorithm, rows_s=8))
    found = [loop for loop in compiled(wide) if products_in(loop) == 4 * 8 * WORDS]
    assert [loop.stack_moves > 0 for loop in found] == [True]
