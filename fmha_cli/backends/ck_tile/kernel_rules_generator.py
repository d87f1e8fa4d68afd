"""Rules by which upstream's example generator prunes its loops (``get_*_blobs``): the enumerator uses these."""

from __future__ import annotations

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.ck_tile.condition import BACKWARD, FORWARD, algorithm_of
from fmha_cli.backends.ck_tile.kernel_rule import Check, KernelRule, Refusal, Stage, cdna_class, class_of
from fmha_cli.backends.ck_tile.revisions import BASELINE
from fmha_cli.codegen.ck_tile.algorithm import Constraint, Pipeline
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, QScaleKey

_OPS = "example/ck_tile/01_fmha/codegen/ops"
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
        f"deterministic {deterministic.value} with {bn0} keys per partial dQ", "0 exactly when not deterministic"
    )


def _rule(
    id: str, text: str, check: Check, reads: str, families: tuple[Family, ...], help: str, file: str, number: str = ""
) -> KernelRule:
    source = f"{_OPS}/{file}"
    return KernelRule(id, text, check, tuple(reads.split()), families, Stage.GENERATOR, help, source, number)


GENERATOR_RULES: tuple[KernelRule, ...] = (
    _rule(
        "K271",
        "group mode needs padding along both sequences",
        _group_pads,
        "mode pad_s pad_sk",
        _PADDED,
        "Sequences of a group have lengths of their own, so no kernel may rely on whole blocks.",
        "*.py get_*_blobs",
        "X1",
    ),
    _rule(
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
    _rule(
        "K273",
        "softcap excludes a bias",
        _softcap_bias,
        "softcap bias",
        FORWARD,
        "Upstream generates a soft cap only where scores have no bias.",
        "*.py get_*_blobs",
        "X3",
    ),
    _rule(
        "K257",
        "gfx9, 16 and 8 bits, head dim 128: 128 keys per step",
        _key_tile,
        "dtype hdim hdim_v pipeline tile",
        (Family.FWD,),
        "Tiles with fewer keys belong to the pipelines with transposed loads.",
        "fmha_fwd.py get_fwd_blobs",
        "T7",
    ),
    _rule(
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
    _rule(
        "K261",
        "qr_async_trload: head dims 64 and 128 (from 2026-08 also 256), not with 128 keys per step at 128",
        _trload,
        "hdim hdim_v pipeline tile rev",
        (Family.FWD,),
        "Upstream's dispatcher admits 64 and 128 alone; its example generator of 2026-08 also emits 256, and decides.",
        "fmha_fwd.py get_fwd_blobs",
        "T11",
    ),
    _rule(
        "K262",
        "the tile of 256 rows and the pipeline qr_async_trload_v3 go together",
        _v3,
        "pipeline tile",
        (Family.FWD,),
        "The eight-wave ping-pong pipeline is written for that tile, and no other pipeline uses it.",
        "fmha_fwd.py get_fwd_blobs",
        "T12",
    ),
    _rule(
        "K264",
        "gfx125, 8 bits: qr_tdm takes the head dim in one step, qr in two or more",
        _tdm,
        "dtype pipeline tile",
        (Family.FWD,),
        "Two tiles per head dim exist, one for each pipeline.",
        "fmha_fwd.py get_fwd_blobs",
        "T14",
    ),
    _rule(
        "K281",
        "several waves along the keys and qr_nwarp_sshuffle go together",
        _n_waves,
        "pipeline waves",
        (Family.FWD_SPLITKV,),
        "Decode tiles of 16 rows spread their waves over the keys and exchange partial scores.",
        "fmha_fwd_splitkv.py get_fwd_splitkv_blobs",
    ),
    _rule(
        "K282",
        "tiles for short pages belong to paged kernels",
        _short_pages,
        "constraint cache",
        (Family.FWD_SPLITKV,),
        "The tile of 32 keys on gfx1100 exists for pages shorter than the usual step.",
        "fmha_fwd_splitkv.py get_fwd_splitkv_blobs",
    ),
    _rule(
        "K283",
        "from 2026-08, pages of one key are in linear layout",
        _page_layout,
        "page kv_layout rev",
        (Family.BATCH_PREFILL,),
        "A vectorised layout orders the keys of a page; a page of one has none to order.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
    _rule(
        "K284",
        "scales per page need pages of whole steps",
        _block_scales,
        "qscale page tile",
        (Family.BATCH_PREFILL,),
        "One scale per page is applied to a whole step of keys.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
    _rule(
        "K285",
        "64-bit loads exist for pages shorter than a step",
        _wide_loads,
        "wide_loads page tile",
        (Family.BATCH_PREFILL,),
        "With pages of whole steps an offset within one page fits 32 bits.",
        "fmha_batch_prefill.py get_fwd_blobs",
    ),
    _rule(
        "K221",
        "from 2026-08, batch prefill is in group mode",
        _prefill_mode,
        "mode rev",
        (Family.BATCH_PREFILL,),
        "The baseline's generator also emits batch mode; upstream's dispatcher refuses it.",
        "fmha_batch_prefill.py get_fwd_blobs",
        "21",
    ),
    _rule(
        "K286",
        "small-tile backward kernels: batch mode without a mask",
        _small_tile,
        "max_seq_q mode mask",
        BACKWARD,
        "They keep all query rows in registers.",
        "fmha_bwd.py get_bwd_blobs",
    ),
    _rule(
        "K287",
        "the gradient of a bias needs an elementwise bias",
        _dbias,
        "dbias bias",
        BACKWARD,
        "ALiBi has no elements to differentiate.",
        "fmha_bwd.py get_bwd_blobs",
        "R12",
    ),
    _rule(
        "K288",
        "backward paddings: equal and not 1 with transposed loads, else 8 of Q only with 8 of V",
        _backward_pads,
        "trload pad_d pad_dv",
        BACKWARD,
        "Transposed loads move 8 elements. Upstream's comment says that neither padding is 8 alone; its code only "
        "tests that of Q, so (0, 8) and (1, 8) exist.",
        "fmha_bwd.py get_bwd_blobs",
    ),
    _rule(
        "K289",
        "dQ is summed over key blocks exactly when deterministic",
        _convert_keys,
        "tile deterministic",
        (Family.BWD_CONVERT_DQ,),
        "A deterministic run keeps one dQ per block of keys; others add into one.",
        "fmha_bwd.py FmhaBwdApiTrait.convert_dq_bn0",
    ),
)
"""In no particular order: each prunes independently."""
