"""The rules of upstream's example generator, which prunes its loops (``get_*_blobs``). The enumerator uses them too."""

from __future__ import annotations

from functools import cache

from fmha_cli.backends.ck_tile.revisions import BASELINE, NAME, arch_class, arch_facts
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import Constraint, Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, QScaleKey

_V3 = Pipeline.QR_ASYNC_TRLOAD_V3
_TRLOAD = Pipeline.QR_ASYNC_TRLOAD
_ONE_D = (Family.FWD_SPLITKV_COMBINE, Family.BWD_DOT_DO_O, Family.BWD_CONVERT_DQ)


@cache
def _class_name(arch: str, family: Family, revision: str) -> str:
    facts = arch_facts(arch)
    found = arch_class(facts, family, revision) if facts else None
    return found.name if found else ""


def _class_of(kernel: KernelSpec) -> str:
    """The name of the class to which upstream assigns a kernel's architecture; empty if it has none."""
    return _class_name(kernel.arch, kernel.family, algorithm_of(kernel).rev)


def _cdna_class(kernel: KernelSpec) -> bool:
    """Whether upstream's gfx9 conditions hold for a kernel (``factory.arch.name.startswith("gfx9")``)."""
    return _class_of(kernel).startswith("gfx9")


def _hdims(kernel: KernelSpec) -> tuple[int, int]:
    return kernel.signature.hdim, kernel.signature.hdim_v


def _group_pads(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if kernel.signature.mode is not ModeKey.GROUP or (a.pad_s and (a.pad_sk or kernel.family in _ONE_D)):
        return None
    return Refusal("group mode without padding along the sequences: lengths differ", "pad_s=yes,pad_sk=yes")


def _deepseek(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    narrow = _hdims(kernel) == (192, 128) or (kernel.family is not Family.FWD and _narrow_192(kernel))
    if not narrow:
        return None
    if s.bias is not BiasKey.NONE:
        return Refusal(f"head dims 192 and 128 with bias {s.bias.value}", "bias=none")
    if s.dropout is Need.YES:
        return Refusal("head dims 192 and 128 with dropout", "dropout=no")
    if kernel.family is not Family.FWD and s.lse is Need.YES:
        return Refusal("head dims 192 and 128 with LSE", "lse=no")
    return None


def _narrow_192(kernel: KernelSpec) -> bool:
    return kernel.signature.hdim == 192 and algorithm_of(kernel).tile[3] == 128


def _softcap_bias(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.softcap is not Need.YES or s.bias is BiasKey.NONE:
        return None
    return Refusal(f"softcap with bias {s.bias.value}", "softcap=no or bias=none")


def _key_tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if not _wide_tiles(kernel) or _hdims(kernel) != (128, 128) or a.tile[1] == 128:
        return None
    return Refusal(f"{a.pipeline.value} at head dim 128 with {a.tile[1]} keys per step", "bn0 = 128")


def _row_tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if not _wide_tiles(kernel) or _hdims(kernel) == (128, 128) or a.tile[0] == 128:
        return None
    return Refusal(
        f"{a.pipeline.value} at head dim {kernel.signature.hdim} with {a.tile[0]} rows per block", "bm0 = 128"
    )


def _wide_tiles(kernel: KernelSpec) -> bool:
    """Whether the conditions on tiles of 128 hold: gfx9, not fp32, and not a transposed-load pipeline."""
    return (
        _cdna_class(kernel)
        and kernel.signature.dtype is not DType.FP32
        and algorithm_of(kernel).pipeline not in (_TRLOAD, _V3)
    )


def _trload(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, hdims = algorithm_of(kernel), _hdims(kernel)
    if a.pipeline is not _TRLOAD:
        return None
    able = [(64, 64), (128, 128)] + ([] if a.rev == BASELINE else [(256, 256)])
    if hdims not in able:
        return Refusal(f"{a.pipeline.value} at head dims {hdims[0]} and {hdims[1]}", f"one of {able}")
    if hdims == (128, 128) and a.tile[1] == 128:
        return Refusal(f"{a.pipeline.value} at head dim 128 with 128 keys per step", "bn0 = 32 or 64")
    return None


def _v3(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if (a.pipeline is _V3) == (a.tile[0] == 256):
        return None
    return Refusal(f"{a.pipeline.value} with {a.tile[0]} rows per block: only v3 uses the 8-wave tile of 256 rows")


def _tdm(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if _class_of(kernel) != "gfx125" or kernel.signature.dtype.bits != 8:
        return None
    steps = a.tile[5] // a.tile[2]
    if (steps == 1) == (a.pipeline is Pipeline.QR_TDM):
        return None
    return Refusal(
        f"{a.pipeline.value} in 8 bits with {steps} steps along the head dim", "qr_tdm: one, qr: two or more"
    )


def _n_waves(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    shuffles = a.pipeline is Pipeline.QR_NWARP_SSHUFFLE
    if (a.waves[1] > 1) == shuffles:
        return None
    return Refusal(f"{a.pipeline.value} with {a.waves[1]} waves along the keys", "qr: one, qr_nwarp_sshuffle: several")


def _short_pages(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if a.constraint is not Constraint.SHORT_PAGES or kernel.signature.cache is CacheKey.PAGED:
        return None
    return Refusal("a tile for short pages in a kernel that reads no block table", "cache=paged")


def _page_layout(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, page = algorithm_of(kernel), kernel.signature.page
    if a.rev == BASELINE or page != 1 or a.kv_layout.value == "linear":
        return None
    return Refusal(f"pages of one key in {a.kv_layout.value} layout", "kv_layout=linear")


def _block_scales(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn0, page = algorithm_of(kernel).tile[1], kernel.signature.page
    if kernel.signature.qscale is not QScaleKey.KV_BLOCK or page >= bn0:
        return None
    return Refusal(f"scales per page of {page} keys with {bn0} keys per step", f"page >= {bn0}")


def _wide_loads(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, page = algorithm_of(kernel), kernel.signature.page
    if not a.wide_loads or page < a.tile[1]:
        return None
    return Refusal(f"64-bit loads with pages of {page} keys: pages of {a.tile[1]} or more need none", "wide_loads=no")


def _prefill_mode(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).rev == BASELINE or kernel.signature.mode is ModeKey.GROUP:
        return None
    return Refusal("batch prefill in batch mode", "mode=group")


def _small_tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, s = algorithm_of(kernel), kernel.signature
    if not a.max_seq_q:
        return None
    if s.mode is ModeKey.GROUP:
        return Refusal(f"group mode in the tile of at most {a.max_seq_q} rows", "mode=batch")
    return None if s.mask is MaskKey.NONE else Refusal(f"a mask in the tile of at most {a.max_seq_q} rows", "mask=none")


def _dbias(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.dbias is not Need.YES or s.bias is BiasKey.ELEMENTWISE:
        return None
    return Refusal(f"a gradient of bias {s.bias.value}", "bias=elementwise or dbias=no")


def _backward_pads(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if a.trload and (a.pad_d != a.pad_dv or a.pad_d == 1):
        return Refusal(f"transposed loads with paddings {a.pad_d} and {a.pad_dv}", "both 0 or both 8")
    if not a.trload and a.pad_d == 8 and a.pad_dv != 8:
        return Refusal(f"padding 8 of Q with padding {a.pad_dv} of V", "pad_dv=8")
    return None


def _convert_keys(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn0, deterministic = algorithm_of(kernel).tile[1], kernel.signature.deterministic
    if (bn0 > 0) == (deterministic is Need.YES):
        return None
    return Refusal(
        f"deterministic {deterministic.value} with {bn0} keys per partial dQ", "0 if and only if not deterministic"
    )


GENERATOR_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K221": _prefill_mode,
        "K257": _key_tile,
        "K259": _row_tile,
        "K261": _trload,
        "K262": _v3,
        "K264": _tdm,
        "K271": _group_pads,
        "K272": _deepseek,
        "K273": _softcap_bias,
        "K281": _n_waves,
        "K282": _short_pages,
        "K283": _page_layout,
        "K284": _block_scales,
        "K285": _wide_loads,
        "K286": _small_tile,
        "K287": _dbias,
        "K288": _backward_pads,
        "K289": _convert_keys,
    },
)
"""The order does not matter: each rule prunes independently."""
