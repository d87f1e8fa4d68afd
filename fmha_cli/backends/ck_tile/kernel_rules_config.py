"""Rules over any kernel: upstream's dispatcher checks 1 to 17, where its example generator agrees with them."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import (
    BACKWARD_ALL,
    LENGTHS,
    NO_ARCH,
    cdna_class,
    class_of,
    counted,
)
from fmha_cli.backends.ck_tile.membership import (
    pipeline_mismatches,
    rows_for,
    tables_for,
    tile_mismatches,
    type_name,
)
from fmha_cli.backends.ck_tile.revisions import (
    NAME,
    arch_class,
    dtypes_of,
    generated_dtypes,
    in_revision,
    revisions,
)
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal

_TRLOADS = (Pipeline.QR_ASYNC_TRLOAD, Pipeline.QR_ASYNC_TRLOAD_V3)
_PRODUCTS = 4
"""At head dim 256, ``qr`` needs a multiple of this many wave products per step."""


def _types(kernel: KernelSpec) -> str:
    return dtypes_text(kernel.signature.dtype, kernel.signature.dtype_out)


def _revision(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    names = [r.name for r in revisions()]
    rev = algorithm_of(kernel).rev
    return None if rev in names else Refusal(f"revision {rev}", f"one of {', '.join(names)}")


def _arch(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if any(arch_class(arch, family, rev) for family in Family):
        return None
    having = [r.name for r in revisions() if any(arch_class(arch, family, r.name) for family in Family)]
    return Refusal(f"revision {rev} has nothing for {arch.name}", f"rev={having[0]}" if having else None)


def _family(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if class_of(kernel) or _arch(kernel, arch):
        return None
    return Refusal(f"revision {rev} has no {kernel.family.value} kernels for {arch.name}")


def _dtype_rows(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not class_of(kernel) or rows_for(kernel):
        return None
    return Refusal(f"no tile of {_types(kernel)} in the tables of {class_of(kernel)}")


def _dtype_generated(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    names = generated_dtypes(kernel.family, algorithm_of(kernel).rev)
    if type_name(kernel) in names:
        return None
    known = ", ".join(dtypes_text(*dtypes_of(name)) for name in names)
    return Refusal(f"upstream generates no {_types(kernel)} for {kernel.family.value}", f"one of {known}")


def _pipeline(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    rows = [row for row in arch.backends.get(NAME, {}).get("pipelines", ()) if in_revision(row, a.rev)]
    able = [name for row in rows for name in row["names"]]
    wanted = Pipeline.BWD.value if kernel.family in BACKWARD_ALL else a.pipeline.value
    if not rows or wanted in able:
        return None
    return Refusal(f"{wanted} does not work on {arch.name}", f"one of {', '.join(able)}")


def _gfx11(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).pipeline is not Pipeline.BATCH_PREFILL_GFX11 or kernel.family is Family.BATCH_PREFILL:
        return None
    return Refusal(f"batch_prefill_gfx11 in a {kernel.family.value} kernel")


def _supports(what: str, kernel: KernelSpec, arch: ArchSpec) -> bool:
    return bool(arch.backends.get(NAME, {}).get("supports", {}).get(what, False))


def _v3(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).pipeline is not Pipeline.QR_ASYNC_TRLOAD_V3 or _supports("v3", kernel, arch):
        return None
    return Refusal(f"qr_async_trload_v3 on {arch.name}", "gfx950")


def _trload(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if not (a.trload or a.pipeline in _TRLOADS) or _supports("trload", kernel, arch):
        return None
    return Refusal(f"transposed loads on {arch.name}", "gfx950")


def _eights(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    for name, value in (("hdim", s.hdim), ("hdim-v", s.hdim_v)):
        if value % 8:
            return Refusal(f"{name} {value} is not a multiple of 8", f"{name} {-(-value // 8) * 8}")
    return None


def _lengths(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, wanted = algorithm_of(kernel), LENGTHS[kernel.family]
    have = (len(a.tile), len(a.waves), len(a.warp))
    if have == wanted:
        return None
    return Refusal(f"tile, waves and warp have {have} numbers, {kernel.family.value} kernels {wanted}")


def _wave_products(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if a.pipeline is not Pipeline.QR or kernel.signature.hdim != 256 or not cdna_class(kernel):
        return None
    counts = [whole // part for whole, part in zip(a.tile[:3], a.warp[:3], strict=True)]
    products, waves = counts[0] * counts[1] * counts[2], a.waves[0] * a.waves[1]
    if products % (waves * _PRODUCTS) == 0:
        return None
    return Refusal(f"{products} products for {waves} waves at head dim 256", f"a multiple of {_PRODUCTS} for each")


def _occupancy(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    occupancy = algorithm_of(kernel).occupancy
    return None if occupancy == -1 or occupancy > 0 else Refusal(f"occupancy {occupancy}", "-1, or 1 or more")


def _counts(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    numbers = counted(kernel)
    return None if min(numbers, default=1) > 0 else Refusal("a tile, wave or warp number below 1", "1 or more")


def _tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not rows_for(kernel):
        return None
    off, s = tile_mismatches(kernel), kernel.signature
    if off is None:
        hdims = dict.fromkeys(f"{a}/{b}" for a, b in (row.hdims for row in rows_for(kernel)))
        return Refusal(f"no tile of head dims {s.hdim}/{s.hdim_v}", f"one of {', '.join(hdims)}")
    return Refusal(f"upstream has no tile row with this {', '.join(off)}") if off else None


def _emitted(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    tables = tables_for(kernel)
    if tables is None or not rows_for(kernel):
        return None
    if kernel.signature.mode not in tables.modes:
        return Refusal(f"{kernel.signature.mode.value} mode", f"one of {', '.join(m.value for m in tables.modes)}")
    off = pipeline_mismatches(kernel)
    if off is None:
        return Refusal(f"upstream has no pipeline for {_types(kernel)} here")
    return Refusal("upstream emits no pipeline with these features", ", ".join(off)) if off else None


CONFIG_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K200": _revision,
        NO_ARCH: _arch,
        "K202": _family,
        "K203": _dtype_rows,
        "K204": _dtype_generated,
        "K205": _dtype_generated,
        "K206": _pipeline,
        "K207": _gfx11,
        "K208": _v3,
        "K209": _trload,
        "K210": _eights,
        "K214": _lengths,
        "K215": _wave_products,
        "K216": _occupancy,
        "K217": _counts,
        "K249": _tile,
        "K250": _emitted,
    },
)
