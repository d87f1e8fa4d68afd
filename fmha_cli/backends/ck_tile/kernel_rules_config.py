"""Rules over any kernel: upstream's dispatcher checks 1 to 17, where its example generator agrees with them."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import (
    BACKWARD_ALL,
    EVERY,
    FORWARD_ALL,
    LENGTHS,
    NO_ARCH,
    Check,
    CkKernelRule,
    Stage,
    cdna_class,
    ck_rule,
    class_of,
    counted,
    upstream_number,
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
from fmha_cli.codegen.ck_tile.algorithm import Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Severity

_VALIDATION = "dispatcher/codegen/fmha/validation.py"
_TRLOADS = (Pipeline.QR_ASYNC_TRLOAD, Pipeline.QR_ASYNC_TRLOAD_V3)
_MAIN = (Family.FWD, Family.FWD_SPLITKV, Family.FWD_PAGEDKV, Family.BATCH_PREFILL)
_FORM = ("form", "14", "17")
"""Numbers of the rules of form. No other rule may index a tile before these have passed."""
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
    return None if occupancy == -1 or occupancy > 0 else Refusal(f"occupancy {occupancy}", "-1, or 1 and more")


def _counts(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    numbers = counted(kernel)
    return None if min(numbers, default=1) > 0 else Refusal("a tile, wave or warp number below 1", "1 and more")


def _tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not rows_for(kernel):
        return None
    off, s = tile_mismatches(kernel), kernel.signature
    if off is None:
        hdims = dict.fromkeys(f"{a}/{b}" for a, b in (row.hdims for row in rows_for(kernel)))
        return Refusal(f"no tile of head dims {s.hdim}/{s.hdim_v}", f"one of {', '.join(hdims)}")
    return Refusal(f"no tile row of upstream has this {', '.join(off)}") if off else None


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


def _rule(
    id: str,
    text: str,
    check: Check,
    reads: str,
    help: str,
    families: tuple[Family, ...] = EVERY,
    *,
    number: str = "",
    stage: Stage = Stage.TABLE,
    source: str = _VALIDATION,
    severity: Severity = Severity.KIND,
) -> CkKernelRule:
    number = number or upstream_number(id)
    return ck_rule(id, text, check, reads, families, stage, help, source, number, severity, form=number in _FORM)


CONFIG_RULES: tuple[CkKernelRule, ...] = (
    _rule(
        "K200",
        "the revision is known",
        _revision,
        "rev",
        "A kernel is of one revision of CK; fmha list-kernels --ck-rev takes the names.",
        number="form",
        source="arch_specs/_ck_tile.json",
    ),
    _rule(
        NO_ARCH,
        "the revision has the architecture",
        _arch,
        "rev",
        "Upstream's generator files each architecture under a class of its own tables.",
        severity=Severity.PLACE,
    ),
    _rule(
        "K202",
        "the revision has the family for the architecture",
        _family,
        "rev",
        "Not every class has tables of all nine families.",
        severity=Severity.PLACE,
    ),
    _rule(
        "K203",
        "the class has tiles of the data type",
        _dtype_rows,
        "dtype dtype_out rev",
        "Upstream's dispatcher has shorter lists (no 8-bit types on gfx90a, no fp8:fp32 on gfx1201); its example "
        "generator has tiles for them, and decides.",
    ),
    _rule(
        "K204",
        "backward kernels: fp16, bf16, fp32",
        _dtype_generated,
        "dtype dtype_out rev",
        "The generator walks through the types of one map; others have no kernels.",
        BACKWARD_ALL,
    ),
    _rule(
        "K205",
        "forward kernels: the types that the generator walks through",
        _dtype_generated,
        "dtype dtype_out rev",
        "bf8 has tiles and pipelines, but no entry in the generator's map, so no bf8 kernel exists. The newer revision "
        "adds mxfp8 and mxfp4.",
        FORWARD_ALL,
    ),
    _rule(
        "K206",
        "the pipeline works on the architecture",
        _pipeline,
        "pipeline rev",
        "qr_async copies from global memory straight into LDS, which RDNA 3 and 4 cannot. The baseline's generator "
        "emits batch-prefill kernels for every target all the same.",
        tuple(f for f in EVERY if f is not Family.FWD_SPLITKV_COMBINE),
        stage=Stage.TARGET,
        severity=Severity.PLACE,
    ),
    _rule(
        "K207",
        "batch_prefill_gfx11 is a pipeline of batch prefill",
        _gfx11,
        "pipeline",
        "It reads a page table per key step.",
    ),
    _rule(
        "K208",
        "qr_async_trload_v3 needs an architecture with it",
        _v3,
        "pipeline",
        "Upstream's dispatcher only warns; its example generator emits the pipeline for gfx950 alone, and decides.",
        severity=Severity.PLACE,
    ),
    _rule(
        "K209",
        "transposed LDS loads need an architecture with them",
        _trload,
        "pipeline trload",
        "ds_read_b64_tr_b16 and its kin came with gfx950.",
        severity=Severity.PLACE,
    ),
    _rule("K210", "head dims are multiples of 8", _eights, "hdim hdim_v", "Rows are loaded in units of 16 bytes."),
    _rule(
        "K214",
        "tile, waves and warp have the numbers of their family",
        _lengths,
        "tile waves warp",
        "Upstream gives every family nine wave and warp numbers; families without matrix products have none here.",
    ),
    _rule(
        "K215",
        "qr at head dim 256 on CDNA: each wave has a multiple of 4 products per step",
        _wave_products,
        "pipeline hdim tile waves warp",
        "Upstream's dispatcher asks for 8. Its example generator emits 8-bit kernels and, from 2026-08, a gfx950 tile "
        "with 4, and decides.",
        _MAIN,
    ),
    _rule("K216", "occupancy is -1 or positive", _occupancy, "occupancy", "-1 leaves the choice to the pipeline."),
    _rule(
        "K217",
        "tile, wave and warp numbers are positive",
        _counts,
        "tile waves warp",
        "Upstream asks it of num_wave_groups, which is 1 in every kernel that it generates.",
    ),
    _rule(
        "K249",
        "upstream's tile table has the tile for the head dims",
        _tile,
        "dtype dtype_out hdim hdim_v tile waves warp occupancy constraint trload max_seq_q rev",
        "A kernel exists when upstream's generator lists its tile for the architecture's class.",
        number="table",
        source="example/ck_tile/01_fmha/codegen/ops/*.py get_hdim_tile_size_dict, get_dq_dk_dv_tiles",
    ),
    _rule(
        "K250",
        "upstream's pipeline table has the pipeline, paddings and features",
        _emitted,
        "*",
        "A kernel exists when upstream's generator emits this pipeline with these paddings and features.",
        number="emission",
        source="example/ck_tile/01_fmha/codegen/ops/*.py get_pipelines, get_bwd_blobs",
    ),
)
