"""Which tiles of a CPU kernel are legal: the capacity of its registers, and the blocks that its loops divide."""

from __future__ import annotations

from functools import cache

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.rules import CPU_RULES
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind
from fmha_cli.codegen.cpu.emit import WIDE_ROWS
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity

_STREAMS = (LoopKind.DECODE, LoopKind.SPLIT)
_TILED = (LoopKind.PREFILL, *_STREAMS)
"""Kinds that have variants."""


def registers_of(algorithm: CpuAlgorithm) -> int:
    """Vector registers that a kernel's largest register tile wants: sums, the vectors that they are made of, and one number."""
    tiles = [(algorithm.lanes_q, algorithm.rows_s)]
    if algorithm.kind in _STREAMS:
        tiles.append((2 * algorithm.lanes_q, WIDE_ROWS))
    return max(vectors * rows + vectors for vectors, rows in tiles) + 1


@cache
def _vector_registers(arch: str) -> int | None:
    """Vector registers of an architecture; None if no fact says how many it has."""
    spec = load_arch(arch)
    return int(spec.fact("vector_registers")) if "vector_registers" in spec.facts else None


def _registers(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    if algorithm.kind not in _TILED or algorithm.simd.tiles:
        return None
    have, wants = _vector_registers(kernel.arch), registers_of(algorithm)
    if have is None or wants <= have:
        return None
    tile = f"{algorithm.lanes_q} vectors x {algorithm.rows_s}"
    return Refusal(f"a register tile of {tile} wants {wants} vector registers: {kernel.arch} has {have}")


def _block(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    step = algorithm.simd.lanes if algorithm.kind in _STREAMS else algorithm.rows_s
    if algorithm.kind not in _TILED or algorithm.block_k % step == 0:
        return None
    return Refusal(f"a block of {algorithm.block_k} keys is not a whole number of register tiles of {step} keys")


def _query_rows(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    lanes, rows = algorithm.simd.lanes, algorithm.rows_s
    if algorithm.kind not in _STREAMS or (rows > 1 and lanes % rows == 0):
        return None
    return Refusal(f"a tile of {rows} query rows does not divide a vector of {lanes} lanes")


def _columns(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    algorithm = algorithm_of(kernel)
    if algorithm.kind not in _STREAMS or algorithm.lanes_q > 1:
        return None
    return Refusal(
        "a decode tile of one vector of columns is the one for the last columns, which each kernel has already"
    )


TILE_RULES: tuple[Rule, ...] = (
    Rule(
        "K105",
        "the register tile fits the vector registers",
        _registers,
        "The sums of a register tile, the vectors that they are made of and one number are in registers at once; a tile that "
        "wants more is kept in memory and loses more than half of the speed.",
        "fmha_cli/codegen/cpu/micro.py score_tile, streams.py mix_tile; fact vector_registers",
        severity=Severity.KIND,
    ),
    Rule(
        "K106",
        "the block of keys is a whole number of register tiles",
        _block,
        "Blocks are split evenly and rounded up to whole register tiles; the scratch holds one block.",
        "fmha_cli/codegen/cpu/src/prefill.h, decode_products.h BC",
        severity=Severity.KIND,
    ),
    Rule(
        "K107",
        "the query rows of a decode tile divide the lanes",
        _query_rows,
        "A decode tile computes the scores of some query rows and lanes / rows keys as one vector.",
        "fmha_cli/codegen/cpu/streams.py dot_tile",
        severity=Severity.KIND,
    ),
    Rule(
        "K108",
        "a decode tile has several vectors of columns",
        _columns,
        "Each decode kernel has tiles of one vector for the columns that are left; a kernel with no others would define them twice.",
        "fmha_cli/codegen/cpu/emit.py _wide_tiles",
        severity=Severity.KIND,
    ),
)
"""The rules of tiles; they say nothing of a problem."""

_NO_PROBLEM, _NO_DEVICE = Problem.of(), DeviceFacts.of_arch("")


def tile_reasons(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Why a CPU kernel cannot be built with its tiles; empty if it can."""
    found = (rule.against(_NO_PROBLEM, kernel, _NO_DEVICE) for rule in TILE_RULES)
    return tuple(reason for reason in found if reason is not None)


def rules() -> tuple[Rule, ...]:
    """All rules about problems and kernels."""
    return (*CPU_RULES, *TILE_RULES)
