"""This machine's peaks: FMA and dot-product loops, and reads from memory, built as every kernel is."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.building import compile_flags, machine_of
from fmha_cli.codegen.cpu.algorithm import Simd
from fmha_cli.codegen.cpu.parts import emit_peaks
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.library import build_cpp

_ROUNDS = 192
_STEPS = 250_000
"""Steps of the compute loops in one round. A round takes 1.6 ms, so even on a busy machine some run undisturbed."""

_CANARY_ROUNDS, _CANARY_STEPS, _CANARY_READS = 12, 200_000, 2
"""A canary takes about 10 ms; reading takes 0.3 s, because it allocates its blocks again."""

_READ_ROUNDS = 6
_READ_FACTOR = 4
"""Each thread reads a block this many times the last-level cache."""

_LEAST_BLOCK, _LEAST_CANARY_BLOCK = 256 << 20, 64 << 20


def build_peak_loops(device: DeviceFacts, context: BuildContext) -> Artifact:
    """The loops for the first architecture of the device: with its vectors and, if it has them, its dot products.

    Raises:
        KernelFailure, EnvironmentProblem: as every build.
    """
    arch = load_arch(device.archs[0])
    bits, dot, tiles = vector_bits(arch), _has_dot(arch), _has_tiles(arch)
    identity = {"backend": "cpu", "dot": dot, "vector_bits": bits, "tiles": tiles}
    text = emit_peaks(bits, dot=dot, tiles=tiles)
    loops = BuildSpec(BuildKind.PEAK_LOOPS, f"cpu:peaks:{arch.name}", arch.name, identity, text)
    flags = "-ffp-contract=fast"
    return build_cpp(loops, context, lambda tools: (*compile_flags(arch, tools.kind), flags), machine=machine_of(arch))


def vector_bits(arch: ArchSpec) -> int:
    """Width of the architecture's vectors in bits."""
    return int(arch.fact("vector_bits"))


def _has_dot(arch: ArchSpec) -> bool:
    return any(row["pairs"] for row in arch.backends["cpu"]["kernels"])


def _has_tiles(arch: ArchSpec) -> bool:
    return any(Simd(row["simd"]).tiles for row in arch.backends["cpu"]["kernels"])


def run_peak_loops(artifact: Path, threads: int) -> dict[str, object]:
    """Run the loops; see ``fmha_cli.domain.measuring.PeakLoops.run_peaks``.

    Raises:
        EnvironmentProblem: the library does not load.
    """
    fma, dot, read, _ = _loops(artifact)
    number, steps = ctypes.c_float, ctypes.c_int64
    llc = detect().llc_bytes
    rate = fma(threads, _ROUNDS, steps(_STEPS), number(0.9999), number(1e-4))
    pairs = dot(threads, _ROUNDS, steps(_STEPS), number(0.001)) or rate
    bandwidth = read(threads, _READ_ROUNDS, steps(_block(threads, _LEAST_BLOCK)))
    return {
        "flops": {"fp32": rate, "fp16": rate, "bf16": pairs},
        "bandwidth": bandwidth if bandwidth > 0 else None,
        "llc_bytes": llc or None,
        "source": f"FMA and dot-product loops, and a read sweep, on {threads} threads of this machine",
    }


def run_canary(artifact: Path, threads: int, *, memory: bool) -> float:
    """A short loop around timed launches; see ``fmha_cli.domain.measuring.Canary.run_canary``.

    Raises:
        EnvironmentProblem: the library does not load.
    """
    _, _, read, tile = _loops(artifact)
    if memory:
        return max(0.0, float(read(threads, _CANARY_READS, ctypes.c_int64(_block(threads, _LEAST_CANARY_BLOCK)))))
    return float(tile(threads, _CANARY_ROUNDS, ctypes.c_int64(_CANARY_STEPS), ctypes.c_float(0.001)))


def _block(threads: int, least: int) -> int:
    """Bytes that each thread reads."""
    return max(_READ_FACTOR * detect().llc_bytes // threads, least)


def _loops(artifact: Path) -> tuple[Any, Any, Any, Any]:
    """The functions of the library: multiply-adds, dot products, reads, the register tile."""
    try:
        library = ctypes.CDLL(str(artifact))
        found = tuple(library[f"fmha_peak_{name}"] for name in ("fma", "dot", "read", "tile"))
    except (OSError, AttributeError) as fault:
        raise EnvironmentProblem("the peak loops do not load", code="K113", why=str(fault)) from fault
    for entry in found:
        entry.restype = ctypes.c_double
    fma, dot, read, tile = found
    return fma, dot, read, tile
