"""Rules by which upstream's example generator prunes its loops (``get_*_blobs``). The enumerator uses them too."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import CkKernelRule, cdna_class, class_of, generator_rule
from fmha_cli.backends.ck_tile.kernel_rules_backward import BACKWARD_RULES
from fmha_cli.backends.ck_tile.kernel_rules_prefill import PREFILL_RULES
from fmha_cli.backends.ck_tile.revisions import BASELINE
from fmha_cli.backends.gpu.conditions import FORWARD
from fmha_cli.codegen.ck_tile.algorithm import Constraint, Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import BiasKey, CacheKey, ModeKey, Need

_V3 = Pipeline.QR_ASYNC_TRLOAD_V3
_TRLOAD = Pipeline.QR_ASYNC_TRLOAD
_PADDED = (*FORWARD, Family.FWD_SPLITKV_COMBINE, Family.BWD_DOT_DO_O, Family.BWD_CONVERT_DQ)
_ONE_D = (Family.FWD_SPLITKV_COMBINE, Family.BWD_DOT_DO_O, Family.BWD_CONVERT_DQ)
_PREFILL = (Family.FWD, Family.FWD_PAGEDKV, Family.BATCH_PREFILL)


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
        cdna_class(kernel)
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
    return Refusal(f"{a.pipeline.value} with {a.tile[0]} rows per block: the 8-wave tile of 256 rows is v3's alone")


def _tdm(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if class_of(kernel) != "gfx125" or kernel.signature.dtype.bits != 8:
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
    return Refusal("a tile for short pages in a kernel that follows no block table", "cache=paged")


_FORWARD_RULES: tuple[CkKernelRule, ...] = (
    generator_rule(
        "K271",
        "group mode needs padding along both sequences",
        _group_pads,
        "mode pad_s pad_sk",
        _PADDED,
        "Sequences of a group have lengths of their own, so no kernel may rely on whole blocks.",
        "*.py get_*_blobs",
        "X1",
    ),
    generator_rule(
        "K272",
        "head dims 192 and 128: neither bias nor dropout",
        _deepseek,
        "hdim hdim_v bias dropout lse tile",
        _PREFILL,
        "The pair exists for one model's prefill; upstream generates no training kernels for it. Paged and batch "
        "prefill leave out LSE too.",
        "fmha_fwd.py get_fwd_blobs",
        "X2",
    ),
    generator_rule(
        "K273",
        "softcap excludes a bias",
        _softcap_bias,
        "softcap bias",
        FORWARD,
        "Upstream generates a soft cap only where scores have no bias.",
        "*.py get_*_blobs",
        "X3",
    ),
    generator_rule(
        "K257",
        "gfx9, 16 and 8 bits, head dim 128: 128 keys per step",
        _key_tile,
        "dtype hdim hdim_v pipeline tile",
        (Family.FWD,),
        "Tiles with fewer keys belong to the pipelines with transposed loads.",
        "fmha_fwd.py get_fwd_blobs",
        "T7",
    ),
    generator_rule(
        "K259",
        "gfx9, 16 and 8 bits, other head dims: 128 rows per block",
        _row_tile,
        "dtype hdim hdim_v pipeline tile",
        (Family.FWD,),
        "Smaller tiles belong to the pipelines with transposed loads. Upstream's dispatcher also takes 64, 192 and 256 "
        "rows; its example generator takes 128 alone, and decides.",
        "fmha_fwd.py get_fwd_blobs",
        "T9",
    ),
    generator_rule(
        "K261",
        "qr_async_trload: head dims 64 and 128 (from 2026-08 also 256), not with 128 keys per step at 128",
        _trload,
        "hdim hdim_v pipeline tile rev",
        (Family.FWD,),
        "Upstream's dispatcher admits 64 and 128 alone; its example generator of 2026-08 also emits 256, and decides.",
        "fmha_fwd.py get_fwd_blobs",
        "T11",
    ),
    generator_rule(
        "K262",
        "the tile of 256 rows and the pipeline qr_async_trload_v3 go together",
        _v3,
        "pipeline tile",
        (Family.FWD,),
        "The eight-wave ping-pong pipeline is written for that tile, and no other pipeline uses it.",
        "fmha_fwd.py get_fwd_blobs",
        "T12",
    ),
    generator_rule(
        "K264",
        "gfx125, 8 bits: qr_tdm takes the head dim in one step, qr in two or more",
        _tdm,
        "dtype pipeline tile",
        (Family.FWD,),
        "Two tiles per head dim exist, one for each pipeline.",
        "fmha_fwd.py get_fwd_blobs",
        "T14",
    ),
    generator_rule(
        "K281",
        "several waves along the keys and qr_nwarp_sshuffle go together",
        _n_waves,
        "pipeline waves",
        (Family.FWD_SPLITKV,),
        "Decode tiles of 16 rows spread their waves over the keys and exchange partial scores.",
        "fmha_fwd_splitkv.py get_fwd_splitkv_blobs",
    ),
    generator_rule(
        "K282",
        "tiles for short pages belong to paged kernels",
        _short_pages,
        "constraint cache",
        (Family.FWD_SPLITKV,),
        "The tile of 32 keys on gfx1100 exists for pages shorter than the usual step.",
        "fmha_fwd_splitkv.py get_fwd_splitkv_blobs",
    ),
)
GENERATOR_RULES: tuple[CkKernelRule, ...] = (*_FORWARD_RULES, *PREFILL_RULES, *BACKWARD_RULES)
"""The order does not matter: each rule prunes independently."""
