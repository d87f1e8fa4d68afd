"""This machine's peaks: FMA and dot-product loops, and reads from memory, built as every kernel is."""

from __future__ import annotations

import ctypes
from pathlib import Path

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.codegen.cpu.peaks import emit_peaks
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

_READ_ROUNDS = 6
_READ_FACTOR = 4
"""Each thread reads a block this many times the last-level cache."""

_LEAST_BLOCK = 256 << 20


def build_peak_loops(device: DeviceFacts, context: BuildContext) -> Artifact:
    """The loops for the best architecture that the device accepts.

    Raises:
        KernelFailure, EnvironmentProblem: as every build.
    """
    arch = load_arch(device.archs[0])
    bits, dot = vector_bits(arch), _has_dot(arch)
    identity = {"backend": "cpu", "dot": dot, "vector_bits": bits}
    loops = BuildSpec(BuildKind.PEAK_LOOPS, f"cpu:peaks:{arch.name}", arch.name, identity, emit_peaks(bits, dot=dot))
    return build_cpp(loops, context, lambda tools: (*compile_flags(arch, tools.kind), "-ffp-contract=fast"))


def vector_bits(arch: ArchSpec) -> int:
    """Width of the architecture's vectors in bits."""
    return int(arch.fact("vector_bits"))


def _has_dot(arch: ArchSpec) -> bool:
    return any(row["pairs"] for row in arch.backends["cpu"]["kernels"])


def run_peak_loops(artifact: Path, threads: int) -> dict[str, object]:
    """Run the loops; see ``fmha_cli.domain.protocols.PeakLoops.run_peaks``.

    Raises:
        EnvironmentProblem: the library does not load.
    """
    try:
        library = ctypes.CDLL(str(artifact))
        fma, dot, read = library.fmha_peak_fma, library.fmha_peak_dot, library.fmha_peak_read
    except (OSError, AttributeError) as fault:
        raise EnvironmentProblem("the peak loops do not load", code="K113", why=str(fault)) from fault
    number, steps = ctypes.c_float, ctypes.c_int64
    for entry in (fma, dot, read):
        entry.restype = ctypes.c_double
    llc = detect().llc_bytes
    rate = fma(threads, _ROUNDS, steps(_STEPS), number(0.9999), number(1e-4))
    pairs = dot(threads, _ROUNDS, steps(_STEPS), number(0.001)) or rate
    bandwidth = read(threads, _READ_ROUNDS, steps(max(_READ_FACTOR * llc // threads, _LEAST_BLOCK)))
    return {
        "flops": {"fp32": rate, "fp16": rate, "bf16": pairs},
        "bandwidth": bandwidth if bandwidth > 0 else None,
        "llc_bytes": llc or None,
        "source": f"FMA and dot-product loops, and a read sweep, on {threads} threads of this machine",
    }
