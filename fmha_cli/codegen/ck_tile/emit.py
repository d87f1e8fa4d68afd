"""``emit``: turns a KernelSpec into one HIP translation unit, the source of one shared library.

The text depends only on the kernel. It includes only CK's own headers, nothing from upstream's example.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources

from fmha_cli.codegen.ck_tile.algorithm import BASELINE, CkAlgorithm, no_emitter
from fmha_cli.codegen.ck_tile.appendkv import appendkv_unit
from fmha_cli.codegen.ck_tile.args import (
    ARGS,
    FAULT,
    LAUNCH,
    NO_FIELD,
    VERSION,
    CkStatus,
    FmhaCkFault,
    FmhaCkKarg,
    FmhaCkLaunch,
    KargKind,
    args_of,
)
from fmha_cli.codegen.ck_tile.bwd import bwd_convert_dq_unit, bwd_dot_do_o_unit, bwd_dq_dk_dv_unit
from fmha_cli.codegen.ck_tile.call import UnitPart, prepare_text
from fmha_cli.codegen.ck_tile.cpp import enumerators, flag, using
from fmha_cli.codegen.ck_tile.features import arch_tag, is_wave32
from fmha_cli.codegen.ck_tile.fwd import fwd_unit, pagedkv_unit, prefill_unit
from fmha_cli.codegen.ck_tile.splitkv import combine_unit, splitkv_unit
from fmha_cli.codegen.struct import c_fields, struct_text, table_text
from fmha_cli.domain.kernel import Family, KernelSpec

_UNITS: dict[Family, Callable[[KernelSpec, CkAlgorithm], UnitPart]] = {
    Family.FWD: fwd_unit,
    Family.FWD_SPLITKV: splitkv_unit,
    Family.FWD_SPLITKV_COMBINE: combine_unit,
    Family.FWD_PAGEDKV: pagedkv_unit,
    Family.FWD_APPENDKV: appendkv_unit,
    Family.BATCH_PREFILL: prefill_unit,
    Family.BWD_DOT_DO_O: bwd_dot_do_o_unit,
    Family.BWD_DQ_DK_DV: bwd_dq_dk_dv_unit,
    Family.BWD_CONVERT_DQ: bwd_convert_dq_unit,
}


@cache
def source_text(name: str) -> str:
    """One file of C++ text of this package."""
    return resources.files(__package__).joinpath("src", name).read_text("utf-8")


def unit_of(kernel: KernelSpec) -> UnitPart:
    """The family's part of a kernel's source.

    Raises:
        TypeError: the kernel is not a CK-Tile kernel.
        EnvironmentProblem: the kernel's revision is not the baseline (B040).
    """
    algorithm = kernel.algorithm
    if not isinstance(algorithm, CkAlgorithm):
        raise TypeError(f"{kernel.name} is not a CK-Tile kernel")
    if algorithm.rev != BASELINE:
        raise no_emitter(kernel)
    return _UNITS[kernel.family](kernel, algorithm)


def emit(kernel: KernelSpec) -> str:
    """The complete source of a kernel's library.

    Raises:
        TypeError: the kernel is not a CK-Tile kernel.
        EnvironmentProblem: the kernel's revision is not the baseline (B040).
    """
    unit = unit_of(kernel)
    block = args_of(kernel.family)
    parts = [
        f"// {kernel.name}",
        _guard(kernel),
        source_text("prelude.h"),
        _constants(kernel, unit, block),
        struct_text(block),
        using("Args", block.__name__),
        *(struct_text(other) for other in (FmhaCkFault, FmhaCkKarg, FmhaCkLaunch)),
        table_text(block, ARGS, VERSION),
        table_text(FmhaCkFault, FAULT, VERSION),
        table_text(FmhaCkLaunch, LAUNCH, VERSION),
        source_text("checks.h"),
        unit.types,
        prepare_text(block, unit.call),
        "template <typename Use>\nint choose(const Args& a, Use use) {\n" + unit.choose + "}\n",
        source_text("kargs.h"),
        source_text("entry.h"),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _guard(kernel: KernelSpec) -> str:
    """Accept one target per library. Upstream's guards distinguish the targets of one library; this one refuses any
    other target."""
    return (
        f"#if defined(__HIP_DEVICE_COMPILE__) && !defined(__{kernel.arch}__)\n"
        f'#error "this kernel is for {kernel.arch} alone"\n#endif\n'
        "#if !defined(CK_TILE_FMHA_FWD_FAST_EXP2)\n#define CK_TILE_FMHA_FWD_FAST_EXP2 1\n#endif\n"
    )


def _constants(kernel: KernelSpec, unit: UnitPart, block: type) -> str:
    fields = {f"FIELD_{name}": i for i, (name, _) in enumerate(c_fields(block))}
    return (
        enumerators({f"STATUS_{s.name}": s.value for s in CkStatus})
        + enumerators({f"KIND_{k.name}": k.value for k in KargKind})
        + enumerators({"NO_FIELD": NO_FIELD, **fields})
        + f"inline constexpr bool WAVE32 = {flag(is_wave32(kernel.arch))};\n"
        + f"inline constexpr bool BLOCK_IS_IN_WAVES = {flag(unit.in_waves)};\n"
        + using("ArchTag", arch_tag(kernel.family, kernel.arch))
    )
